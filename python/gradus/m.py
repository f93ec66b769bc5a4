"""Every link and preset of the library as a function that gives a chain.

    from gradus import m
    chain = m.clip_norm(1) | m.adam(beta1=0.8) | m.lr(1e-3)

Settings have the names, order and defaults of the chain text; help(m.adam) shows formula, settings and ranges.  A setting that
takes a number takes a schedule as text, too: m.lr("warmup(100, cosine(0.1, 0.001, 1000))")."""
from __future__ import annotations

from . import _core
from ._optim import Chain, make_link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def __getattr__(name: str) -> Callable[..., Chain]:
    fn = make_link(name)
    if fn is None:
        import difflib

        near = difflib.get_close_matches(name, _core.link_names(), 1)
        raise AttributeError(f"there is no link '{name}'" + (f", did you mean '{near[0]}'?" if near else ""))
    globals()[name] = fn
    return fn


def __dir__() -> list[str]:
    return sorted({*_core.link_names(), *(k for k in globals() if k.startswith("__"))})


__all__ = list(_core.link_names())
