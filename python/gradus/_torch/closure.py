"""Closures of PyTorch as the links of a step ask for them: the loss alone, its gradient, products with its Hessian, residuals."""
from __future__ import annotations

from typing import Any, Callable

import torch  # type: ignore[import-not-found, unused-ignore]


class Evaluations:
    """The closure of one step.  free: the parameters that want gradients; takes: it has `backward`; torch_of: a tensor of gradus as one of
    torch like another.  differentiates: the closure's code is known to need autograd also where the loss alone is wanted; set here."""

    def __init__(self, closure: Callable[..., Any], free: list[torch.Tensor], takes: bool, torch_of: Callable[..., torch.Tensor],
                 differentiates: bool) -> None:
        self._closure, self._free, self._takes, self._torch_of = closure, free, takes, torch_of
        self._of_squares = isinstance(closure, SumOfSquares)
        self._graph: _Graph | None = None
        self.differentiates = differentiates
        self.first: Any = None

    def _seen(self, loss: Any) -> float:
        if not isinstance(loss, torch.Tensor):
            if not hasattr(loss, "__float__"):
                raise TypeError(f"gradus.torch: a closure returns the loss, not {loss!r}")
        elif loss.numel() != 1:
            raise ValueError(f"gradus.torch: a closure returns one number, not a tensor of the shape {tuple(loss.shape)}")
        if self.first is None:
            self.first = loss
        return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)

    def value(self) -> float:
        """The loss alone, without autograd where the closure leaves all derivatives to its caller."""
        if not self._takes:
            return self._with_autograd()
        if not self.differentiates:
            try:
                with torch.no_grad():
                    return self._seen(self._closure(backward=False))
            except RuntimeError as e:
                if "does not require grad" not in str(e):
                    raise
                self.differentiates = True  # it differentiates inside: a slope is part of the loss
        with torch.enable_grad():
            return self._seen(self._closure(backward=False))

    def _with_autograd(self) -> float:
        with torch.enable_grad():
            return self._seen(self._closure())

    def gradient(self) -> float:
        """The loss, with gradients on the parameters."""
        loss = self._with_autograd()
        if not self._of_squares and all(p.grad is None for p in self._free):
            raise RuntimeError("gradus.torch: the closure left no gradients on the parameters; it calls backward() itself")
        return loss

    def kept(self) -> float:
        """The same by autograd from the loss alone, whose graph is kept until the end of the step or the next kept evaluation."""
        self._graph = None
        with torch.enable_grad():
            loss = self._closure(backward=False)
        value = self._seen(loss.detach() if isinstance(loss, torch.Tensor) else loss)
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
            raise RuntimeError("gradus.torch: with backward=False the closure returns a loss without a graph, or one that depends on no "
                               "parameter; products with the Hessian need that")
        self._graph = _Graph(loss, self._free)
        return value

    def products(self, vectors: list[Any]) -> list[torch.Tensor]:
        """Of the Hessian of the evaluation that was kept."""
        assert self._graph is not None  # links ask for the gradient before
        return self._graph.products([self._torch_of(v, p) for v, p in zip(vectors, self._free)])

    def linearised(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The Jacobian of residuals, and these."""
        j, r = self._closure.jacobian()  # type: ignore[attr-defined]
        if self.first is None:
            self.first = r.square().sum()
        return j, r


class _Graph:
    """Gradients with their history.  Puts them on the parameters."""

    def __init__(self, loss: torch.Tensor, free: list[torch.Tensor]) -> None:
        with torch.enable_grad():
            self._slopes = torch.autograd.grad(loss.reshape(()), free, create_graph=True, allow_unused=True)
        self._free = free
        self._versions = [p._version for p in free]
        self._values = [p.detach().clone() for p in free]
        for p, slope in zip(free, self._slopes):
            p.grad = None if slope is None else slope.detach().clone()

    def products(self, vectors: list[torch.Tensor]) -> list[torch.Tensor]:
        pairs = [(s, v) for s, v in zip(self._slopes, vectors) if s is not None and s.requires_grad]
        if not pairs:
            return [torch.zeros_like(p) for p in self._free]
        now = [p._version for p in self._free]
        moved = now != self._versions
        if moved:  # a search went there and back: what autograd has kept are these numbers again
            if not all(torch.equal(p.detach(), v) for p, v in zip(self._free, self._values)):
                raise RuntimeError("gradus.torch: products with the Hessian are wanted elsewhere than the gradient was taken")
            _set_versions(self._free, self._versions)
        try:
            out = torch.autograd.grad([s for s, _ in pairs], self._free, [v for _, v in pairs], retain_graph=True, allow_unused=True)
        finally:
            if moved:
                _set_versions(self._free, now)
        return [torch.zeros_like(p) if h is None else h for h, p in zip(out, self._free)]


def _set_versions(tensors: list[torch.Tensor], versions: list[int]) -> None:
    torch._C._autograd._unsafe_set_version_counter(tuple(tensors), tuple(versions))


class SumOfSquares:
    """Residuals as a closure that takes `backward`, and their Jacobian."""

    def __init__(self, residuals: Callable[[], torch.Tensor], free: list[torch.Tensor]) -> None:
        self._residuals, self._free = residuals, free

    def _vector(self) -> torch.Tensor:
        r = self._residuals()
        if not isinstance(r, torch.Tensor):
            raise TypeError(f"gradus.torch: residuals are a tensor, not {r!r}")
        if torch.is_grad_enabled() and not r.requires_grad:
            raise ValueError("gradus.torch: the residuals depend on no parameter that wants gradients")
        return (torch.view_as_real(r) if r.is_complex() else r).reshape(-1)

    def __call__(self, backward: bool = True) -> torch.Tensor:
        loss = self._vector().square().sum()
        if not backward:
            return loss
        for p, g in zip(self._free, torch.autograd.grad(loss, self._free, allow_unused=True)):
            p.grad = g
        return loss.detach()

    def jacobian(self) -> tuple[torch.Tensor, torch.Tensor]:
        """J over all elements of the parameters, and r; by columns where there are many more rows."""
        with torch.enable_grad():
            r = self._vector()
        columns = _jacobian_columns(r, self._free) if r.numel() > 2 * sum(map(_real_numel, self._free)) else None
        return columns if columns is not None else _jacobian_rows(r, self._free), r.detach()


class Nothing(SumOfSquares):
    """One that is 0 everywhere: the slopes that are there are those."""

    def __call__(self, backward: bool = True) -> torch.Tensor:
        return super().__call__(False)


def _real_numel(p: torch.Tensor) -> int:
    return int(p.numel()) * (2 if p.is_complex() else 1)


def _as_rows(count: int, slopes: Any, free: list[torch.Tensor]) -> torch.Tensor:
    """Slopes of `count` numbers with regard to each parameter, side by side; none are zeros."""
    parts = [p.new_zeros((count, *p.shape)) if g is None else g for g, p in zip(slopes, free)]
    return torch.cat([(torch.view_as_real(g) if g.is_complex() else g).reshape(count, -1) for g in parts], 1)


def _jacobian_rows(r: torch.Tensor, free: list[torch.Tensor]) -> torch.Tensor:
    """By as many reverse passes as there are residuals: together, or where an operation does not allow that one by one."""
    seeds = torch.eye(r.numel(), dtype=r.dtype, device=r.device)
    try:
        return _as_rows(r.numel(), torch.autograd.grad(r, free, seeds, retain_graph=True, allow_unused=True, is_grads_batched=True), free)
    except RuntimeError:
        rows = [_as_rows(1, torch.autograd.grad(r, free, seed, retain_graph=True, allow_unused=True), free) for seed in seeds]
        return torch.cat([row.reshape(1, -1) for row in rows])


def _jacobian_columns(r: torch.Tensor, free: list[torch.Tensor]) -> torch.Tensor | None:
    """By as many passes as there are elements of the parameters: derivatives of J^T u, which is linear in u.  None where an operation
    cannot be differentiated twice."""
    try:
        with torch.enable_grad():
            u = torch.zeros_like(r, requires_grad=True)
            slopes = torch.autograd.grad(r, free, u, create_graph=True, allow_unused=True)
        parts = []
        for p, g in zip(free, slopes):
            n = _real_numel(p)
            seeds = torch.eye(n, dtype=p.real.dtype if p.is_complex() else p.dtype, device=p.device)
            seeds = torch.view_as_complex(seeds.reshape(n, *p.shape, 2)) if p.is_complex() else seeds.reshape(n, *p.shape)
            part = None if g is None or n == 0 else torch.autograd.grad(g, u, seeds, retain_graph=True, is_grads_batched=True)[0]
            parts.append(r.new_zeros((n, r.numel())) if part is None else part)
        return torch.cat(parts).t().contiguous()
    except RuntimeError:
        return None
