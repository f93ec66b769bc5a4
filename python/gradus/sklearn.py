"""Estimators of scikit-learn made of gradus: linear models and small networks, trained with any chain.

    from gradus.sklearn import GradusClassifier
    GradusClassifier(hidden=(16,), random_state=0).fit(X, y).predict(X)

They pass scikit-learn's own checks, and work in pipelines, grid search and joblib."""
from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.utils import check_random_state, column_or_1d  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data  # type: ignore[import-not-found, import-untyped, unused-ignore]

from . import _core
from ._optim import Chain, Optimizer
from ._tensor import no_grad, tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWTON_UP_TO = 500  # weights of networks that are trained by Newton steps to the last digits: weighted and repeated rows end at one point
ACTIVATIONS = ("relu", "gelu", "tanh", "sigmoid", "softplus")


class _Network(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """hidden       sizes of hidden layers; (): a linear model
    activation   relu, gelu, tanh, sigmoid or softplus
    alpha        half of it times the sum of squares of the weights is added to the mean loss
    chain        links, text or a Chain; None: "lbfgs | strong_wolfe", "levenberg_marquardt(newton)" for networks with at most 500 weights,
                 or "adam | lr(0.01)" with batch_size
    max_steps    steps at most; with batch_size passes over the data
    tol          largest element of the gradient at the end, of the full batch
    batch_size   rows of a step, drawn anew for each pass; None: all rows, where weights of rows mean what repeating them means
    random_state seeds the first weights and the order of rows

    Columns are centred and scaled, by weight.  Fitted: weights_ and biases_ of the layers, n_iter_, loss_."""

    def __init__(self, hidden: Any = (), activation: str = "relu", alpha: float = 1e-4, chain: Any = None, max_steps: int = 1000,
                 tol: float = 1e-7, batch_size: int | None = None, random_state: Any = None) -> None:
        self.hidden, self.activation, self.alpha, self.chain = hidden, activation, alpha, chain
        self.max_steps, self.tol, self.batch_size, self.random_state = max_steps, tol, batch_size, random_state

    def _loss(self, out: Any, target: Any, weight: Any) -> Any:
        raise NotImplementedError

    def _train(self, X: Any, target: Any, outputs: int, sample_weight: Any, shift: Any = None) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is one of {', '.join(ACTIVATIONS)}, not {self.activation!r}")
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if not weight.sum() > 0:
            raise ValueError("the weights of the samples are all 0")
        total = weight.sum()
        self.mean_ = weight @ X / total
        scale = np.sqrt(weight @ (X - self.mean_) ** 2 / total)
        self.scale_ = np.where(scale > 1e-12 * np.maximum(1, np.abs(self.mean_)), scale, 1.0)
        sizes = [X.shape[1], *self.hidden, outputs]
        random = check_random_state(self.random_state)
        params = {}
        for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
            start = np.zeros((a, b)) if len(sizes) == 2 else random.uniform(-1, 1, (a, b)) * np.sqrt(6 / (a + b))
            params[f"w{i}"] = tensor(start).require_grad()
            params[f"b{i}"] = tensor(np.zeros(b) if shift is None or i < len(sizes) - 2 else np.asarray(shift, float)).require_grad()
        self._layers = len(sizes) - 1
        rows = tensor((X - self.mean_) / self.scale_)
        share = tensor(weight / total)
        if self.batch_size is None:
            self._full_batch(params, rows, target, share)
        else:
            self._batches(params, rows, target, share, random)
        with no_grad():
            self.weights_ = [np.array(params[f"w{i}"].tolist()).reshape(a, b) for i, (a, b) in enumerate(zip(sizes, sizes[1:]))]
            self.biases_ = [np.array(params[f"b{i}"].tolist()) for i in range(self._layers)]
        del self._layers

    def _objective(self, params: dict[str, Any], rows: Any, target: Any, share: Any) -> Any:
        out = rows
        for i in range(self._layers):
            out = out @ params[f"w{i}"] + params[f"b{i}"]
            if i < self._layers - 1:
                out = getattr(out, self.activation)()
        penalty = sum(params[f"w{i}"].square().sum() for i in range(self._layers))
        return self._loss(out, target, share) + 0.5 * self.alpha * penalty

    def _full_batch(self, params: dict[str, Any], rows: Any, target: Any, share: Any) -> None:
        from ._minimize import minimize

        chain, tol = None if self.chain is None else str(self.chain), float(self.tol)
        if chain is None and self.hidden and sum(p.size for p in params.values()) <= NEWTON_UP_TO:
            chain, tol = "levenberg_marquardt(newton)", min(tol, 1e-13)
        result = minimize(lambda **given: self._objective(given, rows, target, share), params, chain=chain, max_steps=int(self.max_steps),
                          gradient_tol=tol, curvature_products=0)
        for name, value in result.x.items():
            params[name].assign(value)
        self.n_iter_, self.loss_ = max(1, int(result.nit)), float(result.fun)
        if not result.success and result.stop in ("MAX_STEPS", "DIVERGED", "NOT_FINITE"):
            warnings.warn(f"{type(self).__name__}: {result.message}: increase max_steps, or tol", ConvergenceWarning, stacklevel=4)

    def _batches(self, params: dict[str, Any], rows: Any, target: Any, share: Any, random: Any) -> None:
        optimizer = Optimizer(params, Chain(str(self.chain if self.chain is not None else "adam | lr(0.01)")))
        count = rows.shape[0]
        size = int(self.batch_size)  # type: ignore[arg-type]
        if size < 1:
            raise ValueError(f"batch_size is {self.batch_size}, it must be at least 1")
        loss, passes = 0.0, 0
        for passes in range(1, int(self.max_steps) + 1):
            order = random.permutation(count)
            loss = 0.0
            for first in range(0, count, size):
                some = tensor(order[first:first + size])
                part = share[some]
                whole = part.sum().item()
                if whole > 0:
                    found = optimizer.step(lambda: self._objective(params, rows[some], target[some], part / whole))
                    loss += (found or 0.0) * whole
        self.n_iter_, self.loss_ = passes, float(loss)

    def _output(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        with no_grad():
            out = tensor((X - self.mean_) / self.scale_)
            for i, (w, b) in enumerate(zip(self.weights_, self.biases_)):
                out = out @ tensor(w) + tensor(b)
                if i < len(self.weights_) - 1:
                    out = getattr(out, self.activation)()
            return np.array(out.tolist()).reshape(len(X), -1)


class GradusClassifier(ClassifierMixin, _Network):  # type: ignore[misc, unused-ignore]
    __doc__ = "A classifier: logistic regression, or a network with hidden layers.\n\n    " + (_Network.__doc__ or "") + "  classes_ are the labels."

    def _loss(self, out: Any, target: Any, weight: Any) -> Any:
        if out.shape[1] == 1:  # of two classes one number is enough
            z = out.reshape(-1)
            return (weight * (z.softplus() - target * z)).sum()
        return -(weight.reshape(-1, 1) * target * _core.log_softmax(out, 1)).sum()

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GradusClassifier":
        """Trains on rows X with labels y."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        self.classes_, codes = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(f"{type(self).__name__} needs samples of at least 2 classes, the data have 1 class: {self.classes_[0]!r}")
        target = tensor(codes.astype(float)) if count == 2 else tensor(np.eye(count)[codes])
        self._train(X, target, 1 if count == 2 else count, sample_weight)
        return self

    def decision_function(self, X: Any) -> Any:
        """The number before the sigmoid for two classes; for more one per class."""
        out = self._output(X)
        return out.ravel() if len(self.classes_) == 2 else out

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class."""
        out = self._output(X)
        if len(self.classes_) == 2:
            out = np.hstack([np.zeros_like(out), out])
        out = np.exp(out - out.max(axis=1, keepdims=True))
        return out / out.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Any:
        """Its logarithm."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> Any:
        """The most probable label of each row."""
        out = self._output(X)
        return self.classes_[(out.ravel() > 0).astype(int) if len(self.classes_) == 2 else out.argmax(axis=1)]


class GradusRegressor(RegressorMixin, _Network):  # type: ignore[misc, unused-ignore]
    __doc__ = "A regressor: least squares, or a network with hidden layers.\n\n    " + (_Network.__doc__ or "")

    def _loss(self, out: Any, target: Any, weight: Any) -> Any:
        return 0.5 * (weight * (out.reshape(-1) - target).square()).sum()

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GradusRegressor":
        """Trains on rows X with numbers y."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = column_or_1d(y, warn=True).astype(np.float64)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        mean = weight @ y / weight.sum() if weight.sum() > 0 else 0.0
        spread = np.sqrt(weight @ (y - mean) ** 2 / weight.sum()) if weight.sum() > 0 else 1.0
        self.y_mean_, self.y_scale_ = float(mean), float(spread) if spread > 1e-12 * max(1.0, abs(mean)) else 1.0
        self._train(X, tensor((y - self.y_mean_) / self.y_scale_), 1, sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        """A number for each row."""
        return self._output(X).ravel() * self.y_scale_ + self.y_mean_


__all__ = ["GradusClassifier", "GradusRegressor"]
