"""Quantiles of Student's distribution, and reports of fits as text."""
from __future__ import annotations

import math
from math import nan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._parameters import Parameters


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d, out = 1.0, 0.0, 1.0
    for i in range(400):
        m = i // 2
        step = 1.0 if i == 0 else m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)) if i % 2 == 0 else -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + step * d or 1e-300)
        c = 1 + step / c or 1e-300
        out *= c * d
        if abs(1 - c * d) < 1e-15:
            break
    return front * (out - 1)


def student_quantile(p: float, dof: float) -> float:
    """The t below which Student's distribution has the probability p > 1/2."""
    if dof <= 0:
        return nan
    low, high = 0.0, 1.0
    while student_below(high, dof) < p and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if student_below(middle, dof) < p else (low, middle)
    return (low + high) / 2


def student_below(t: float, dof: float) -> float:
    """The probability of less than t >= 0."""
    return 1 - 0.5 * _incomplete_beta(dof / 2, 0.5, dof / (dof + t * t))


def probability_of(sigma: float) -> float:
    """A number of standard deviations as the probability within them; below 1 it is a probability already."""
    return sigma if 0 < sigma < 1 else math.erf(sigma / math.sqrt(2))


# ---- reports ----

def report_of(result: Any, params: Parameters, show_correl: bool, min_correl: float) -> str:
    """Statistics, parameters and correlations; result None: parameters alone."""
    lines = []
    if result is not None:
        if getattr(result, "model", None) is not None:
            lines.append(f"[[Model]]\n    {result.model.name}")
        lines.append("[[Fit Statistics]]")
        rows: list[tuple[str, Any]] = [("fitting method", result.method), ("function evals", result.nfev), ("data points", result.ndata), ("variables", result.nvarys)]
        rows += [(name, f"{getattr(result, key):.8g}") for name, key in (
            ("chi-square", "chisqr"), ("reduced chi-square", "redchi"), ("Akaike info crit", "aic"), ("Bayesian info crit", "bic"), ("R-squared", "rsquared"))
            if hasattr(result, key)]
        lines += [f"    {name:<18} = {value}" for name, value in rows]
    lines.append("[[Variables]]")
    for n, p in params.items():
        error = f" +/- {p.stderr:.8g}" + (f" ({100 * abs(p.stderr / p.value):.2f}%)" if p.value else "") if p.stderr is not None else ""
        kind = f" == '{p.expr}'" if p.expr else "" if p.vary else " (fixed)"
        start = f" (init = {p.init_value:.8g})" if p.vary and p.init_value == p.init_value else ""
        lines.append(f"    {n + ':':<12} {p.value:.8g}{error}{kind}{start}")
    names = [n for n, p in params.items() if p.vary]
    pairs = sorted(((a, b, c) for i, a in enumerate(names) for b, c in params[a].correl.items() if b in names[i + 1:]), key=lambda r: -abs(r[2]))
    shown = [f"    C({a}, {b}) = {c:+.4f}" for a, b, c in pairs if abs(c) >= min_correl]
    if shown and show_correl:
        lines += [f"[[Correlations]] (unreported correlations are < {min_correl:.3f})", *shown]
    if result is not None and not result.success:
        lines.append(f"    {result.message}")
    return "\n".join(lines)


def intervals_as_text(found: dict[str, list[tuple[float, float]]], digits: int = 5, with_offset: bool = True) -> str:
    """Confidence intervals as a table: a row per parameter, a column per probability."""
    rows = [["", *[f"{100 * p:.2f}%" if p else "_BEST_" for p, _ in next(iter(found.values()))]]] if found else []
    for name, pairs in found.items():
        best = next(v for p, v in pairs if not p)
        rows.append([name, *[f"{v - best:+.{digits}f}" if p and with_offset else f"{v:.{digits}f}" for p, v in pairs]])
    width = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))] if rows else []
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(r, width)) for r in rows)
