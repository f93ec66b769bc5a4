"""Built-in models: shapes of lines, steps and simple functions with names for their parameters, limits, derived parameters and a guess."""
from __future__ import annotations

import math
from math import inf, pi

from .. import _core
from .._core import Tensor
from .._tensor import no_grad, tensor
from . import lineshapes as shapes
from ._model import Model
from ._parameters import Parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

FWHM_GAUSS = "2.3548200450309493*{p}sigma"
HEIGHT_GAUSS = "0.3989422804014327*{p}amplitude/maximum(1e-15, {p}sigma)"


class _BuiltIn(Model):
    """A shape; hints are those of its parameters, {p} in an expression is the prefix."""

    shape: Any
    preset: dict[str, dict[str, Any]] = {}

    def __init__(self, independent_vars: Any = None, prefix: str = "", nan_policy: str = "raise", name: str | None = None, **options: Any) -> None:
        super().__init__(type(self).shape, independent_vars=independent_vars, nan_policy=nan_policy, prefix=prefix, **options)
        self.name = name or (f"{type(self).__name__}(prefix='{prefix}')" if prefix else type(self).__name__)
        for parameter, hint in type(self).preset.items():
            self.set_param_hint(parameter, **{k: v.replace("{p}", prefix) if isinstance(v, str) else v for k, v in hint.items()})

    def guess(self, data: Any, x: Any = None, *others: Any, **given: Any) -> Parameters:
        """Parameters to start from, read off the data: guess(y, x=x); others by name, as in make_params."""
        first = self.independent_vars[0]
        given.update(zip(self.independent_vars[1:], others))
        at = x if x is not None else given.pop(first, None)
        y = tensor(data).to("f64").reshape(-1)
        if at is None:
            raise TypeError(f"guess: '{first}' is not given")
        rows = [tensor(at).to("f64").reshape(-1), *[tensor(given.pop(n)).to("f64").reshape(-1) for n in self.independent_vars[1:] if n in given]]
        if any(r.size != y.size for r in rows):
            raise ValueError(f"guess: {rows[0].size} values of '{first}' for {y.size} of the data")
        how = {n: given.pop(n) for n in ("negative",) if n in given}
        with no_grad():
            found = self._guess(y, *rows, **how)
        params = self.make_params(**{n: v for n, v in found.items()})
        for n, v in given.items():
            full = n if n in params else self.prefix + n
            if full not in params:
                raise KeyError(f"guess: the model has no parameter '{n}'")
            params[full].set(**(v if isinstance(v, dict) else {"value": v}))
        return params

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        raise NotImplementedError


# ---- guesses ----

def _peak(y: Tensor, x: Tensor, negative: bool) -> tuple[float, float, float]:
    """Height above the edge, place and width of the largest peak."""
    high, low = y.max().item(), y.min().item()
    values, places = (-y if negative else y).tolist(), x.tolist()
    top, bottom = (-low, -high) if negative else (high, low)
    above = [k for k, v in enumerate(values) if v > (top + bottom) / 2]
    at = places[values.index(top)]
    width = 0.1 * (max(places) - min(places))
    if len(above) > 2:
        at = sum(places[k] for k in above) / len(above)
        width = (max(places[k] for k in above) - min(places[k] for k in above)) / 2
    return (top - bottom) * (-1 if negative else 1), at, width or 1.0


class _Peak(_BuiltIn):
    scale = math.sqrt(2 * pi)  # area of a peak of height and width 1
    narrow = 1.0  # sigma of half the width at half height

    def _guess(self, y: Tensor, x: Tensor, negative: bool = False) -> dict[str, float]:
        height, at, width = _peak(y, x, negative)
        sigma = width * self.narrow
        return {"amplitude": height * sigma * self.scale, "center": at, "sigma": sigma}


def _power_series(y: Tensor, x: Tensor, degree: int) -> list[float]:
    """Coefficients of the polynomial of least squares, lowest first."""
    size = x.abs().max().item() or 1.0
    columns = _core.stack([(x / size) ** k for k in range(degree + 1)], 1)
    q, r = _core.qr(columns)
    found = _core.solve(r, (q.T @ y).reshape(-1, 1)).reshape(-1).tolist()
    return [v / size ** k for k, v in enumerate(found)]


# ---- simple functions ----

class ConstantModel(_BuiltIn):
    """c."""
    shape = staticmethod(shapes.constant)

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        return {"c": y.mean().item()}

    def guess(self, data: Any, x: Any = None, **given: Any) -> Parameters:
        return super().guess(data, x=tensor(data).to("f64") * 0 if x is None else x, **given)


class LinearModel(_BuiltIn):
    """slope x + intercept."""
    shape = staticmethod(shapes.linear)

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        low, slope = _power_series(y, x, 1)
        return {"slope": slope, "intercept": low}


class QuadraticModel(_BuiltIn):
    """a x^2 + b x + c."""
    shape = staticmethod(shapes.parabolic)

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        return dict(zip("cba", _power_series(y, x, 2)))


ParabolicModel = QuadraticModel


class PolynomialModel(_BuiltIn):
    """c0 + c1 x + ... up to the degree."""

    def __init__(self, degree: int = 7, independent_vars: Any = None, prefix: str = "", nan_policy: str = "raise", name: str | None = None) -> None:
        if not isinstance(degree, int) or not 0 <= degree <= 31:
            raise ValueError(f"PolynomialModel: degree is a whole number from 0 to 31, not {degree!r}")
        self.poly_degree = degree
        names = [f"c{k}" for k in range(degree + 1)]

        def polynomial(x: Any, **values: Any) -> Any:
            out = x * 0
            for n in reversed(names):
                out = out * x + values[n]
            return out
        Model.__init__(self, polynomial, independent_vars=independent_vars or ["x"], param_names=names, nan_policy=nan_policy, prefix=prefix, name=name)
        self.name = name or f"PolynomialModel(degree={degree})"

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        return {f"c{k}": v for k, v in enumerate(_power_series(y, x, self.poly_degree))}


class SplineModel(_BuiltIn):
    """A cubic spline with the places xknots: s0, s1, ... are the coefficients of its B-splines, near its values at the places."""

    def __init__(self, xknots: Any, independent_vars: Any = None, prefix: str = "", nan_policy: str = "raise", name: str | None = None) -> None:
        knots = [float(v) for v in tensor(xknots).to("f64").reshape(-1).tolist()]
        if len(knots) < 4 or any(a >= b for a, b in zip(knots, knots[1:])):
            raise ValueError("SplineModel: xknots are at least 4 growing numbers")
        names = [f"s{k}" for k in range(len(knots))]
        self.xknots, self._knots = xknots, knots
        ends = [knots[0]] * 4 + knots[2:-2] + [knots[-1]] * 4

        def spline(x: Any, **values: Any) -> Any:
            return _b_splines(x if isinstance(x, Tensor) else tensor(x).to("f64"), ends) @ _core.stack([v if isinstance(v, Tensor) else tensor(float(v)) for v in (values[n] for n in names)])
        Model.__init__(self, spline, independent_vars=independent_vars or ["x"], param_names=names, nan_policy=nan_policy, prefix=prefix, name=name)
        self.name = name or f"SplineModel({len(knots)} knots)"

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        order = sorted(zip(x.tolist(), y.tolist()))
        out = {}
        for k, knot in enumerate(self._knots):
            near = sorted(order, key=lambda row: abs(row[0] - knot))[:3]
            out[f"s{k}"] = sum(v for _, v in near) / len(near)
        return out


def _b_splines(x: Tensor, t: list[float]) -> Tensor:
    """The cubic B-splines of the knots t at x by the recurrence of Cox and de Boor; the end pieces go on outside."""
    last = len(t) - 5
    row = []
    for i in range(len(t) - 1):
        inside = x == x
        if i > 3:
            inside = inside & (x >= t[i])
        if i < last:
            inside = inside & (x < t[i + 1])
        row.append(inside.to("f64") if t[i] < t[i + 1] else x * 0)
    for k in (1, 2, 3):
        row = [(row[i] * ((x - t[i]) / (t[i + k] - t[i])) if t[i + k] > t[i] else x * 0)
               + (row[i + 1] * ((t[i + k + 1] - x) / (t[i + k + 1] - t[i + 1])) if t[i + k + 1] > t[i + 1] else x * 0) for i in range(len(row) - 1)]
    return _core.stack(row, 1)


class SineModel(_BuiltIn):
    """amplitude sin(frequency x + shift)."""
    shape = staticmethod(shapes.sine)
    preset = {"amplitude": {"min": 0}, "frequency": {"min": 0}, "shift": {"min": -2 * pi - 1e-5, "max": 2 * pi + 1e-5}}

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        """The frequency of the grid at which a wave explains most."""
        span = x.max().item() - x.min().item()
        rest = y - y.mean()
        best, least = (1.0, 0.0, 1.0), -1.0
        for k in range(1, min(2 * y.size, 2000)):
            f = k * pi / (2 * span) if span else 1.0
            a, b = (rest * (f * x).sin()).mean().item(), (rest * (f * x).cos()).mean().item()
            if a * a + b * b > least:
                least, best = a * a + b * b, (f, a, b)
        f, a, b = best
        return {"amplitude": 2 * math.hypot(a, b), "frequency": f, "shift": math.atan2(b, a)}


class ExponentialModel(_BuiltIn):
    """amplitude exp(-x / decay)."""
    shape = staticmethod(shapes.exponential)

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        low, slope = _power_series((y.abs() + 1e-15).log(), x, 1)
        return {"amplitude": math.exp(low), "decay": -1 / slope if slope else 1.0}


class PowerLawModel(_BuiltIn):
    """amplitude x^exponent."""
    shape = staticmethod(shapes.powerlaw)

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        low, slope = _power_series((y.abs() + 1e-15).log(), (x.abs() + 1e-15).log(), 1)
        return {"amplitude": math.exp(low), "exponent": slope}


class ExpressionModel(Model):
    """An expression of variables and parameters: ExpressionModel("a*exp(-x/t)")."""

    def __init__(self, expr: str, independent_vars: Any = None, init_script: str | None = None, nan_policy: str = "raise", **more: Any) -> None:
        if init_script is not None:
            raise _core.UnsupportedError("ExpressionModel: init_script is not supported: expressions are arithmetic; use a function")
        super().__init__(expr, independent_vars=independent_vars, nan_policy=nan_policy, **more)
        self.expr = expr


# ---- peaks ----

class GaussianModel(_Peak):
    """amplitude / (sigma sqrt(2 pi)) exp(-(x - center)^2 / (2 sigma^2)); derived: fwhm, height."""
    shape = staticmethod(shapes.gaussian)
    narrow = 1 / math.sqrt(2 * math.log(2))
    preset = {"sigma": {"min": 0}, "fwhm": {"expr": FWHM_GAUSS}, "height": {"expr": HEIGHT_GAUSS}}


class Gaussian2dModel(_BuiltIn):
    """A gaussian over x and y; derived: fwhmx, fwhmy, height."""
    shape = staticmethod(shapes.gaussian2d)
    preset = {"sigmax": {"min": 0}, "sigmay": {"min": 0}, "fwhmx": {"expr": "2.3548200450309493*{p}sigmax"},
              "fwhmy": {"expr": "2.3548200450309493*{p}sigmay"},
              "height": {"expr": "0.15915494309189535*{p}amplitude/(maximum(1e-15, {p}sigmax)*maximum(1e-15, {p}sigmay))"}}

    def __init__(self, independent_vars: Any = ("x", "y"), prefix: str = "", nan_policy: str = "raise", name: str | None = None) -> None:
        super().__init__(independent_vars, prefix, nan_policy, name)

    def _guess(self, y: Tensor, x: Tensor, other: Tensor | None = None, negative: bool = False) -> dict[str, float]:
        if other is None:
            raise TypeError("guess: 'y' is not given")
        height, _, _ = _peak(y, x, negative)
        weight = (y - (y.max() if negative else y.min())).abs()
        weight = _core.where(weight > 0.5 * abs(height), weight, weight * 0)
        total, out = weight.sum().item() or 1.0, {}
        for n, v in (("x", x), ("y", other)):
            at = (weight * v).sum().item() / total
            out["center" + n], out["sigma" + n] = at, math.sqrt((weight * (v - at).square()).sum().item() / total) * 1.7 or 1.0
        out["amplitude"] = height * 2 * pi * out["sigmax"] * out["sigmay"]
        return out


class LorentzianModel(_Peak):
    """amplitude / (pi sigma) / (1 + ((x - center) / sigma)^2); derived: fwhm, height."""
    shape = staticmethod(shapes.lorentzian)
    scale = pi
    preset = {"sigma": {"min": 0}, "fwhm": {"expr": "2*{p}sigma"}, "height": {"expr": "0.3183098861837907*{p}amplitude/maximum(1e-15, {p}sigma)"}}


class SplitLorentzianModel(_Peak):
    """A lorentzian of the width sigma below center and sigma_r above; derived: fwhm, height."""
    shape = staticmethod(shapes.split_lorentzian)
    scale = pi
    preset = {"sigma": {"min": 0}, "sigma_r": {"min": 0}, "fwhm": {"expr": "{p}sigma + {p}sigma_r"},
              "height": {"expr": "2*{p}amplitude/3.141592653589793/maximum(1e-15, {p}sigma + {p}sigma_r)"}}

    def _guess(self, y: Tensor, x: Tensor, negative: bool = False) -> dict[str, float]:
        found = super()._guess(y, x, negative)
        return {**found, "sigma_r": found["sigma"]}


class VoigtModel(_Peak):
    """A gaussian of the width sigma folded with a lorentzian of the width gamma, which follows sigma; derived: fwhm, height."""
    shape = staticmethod(shapes.voigt)
    scale, narrow = 3.0, 0.6
    preset = {"sigma": {"min": 0}, "gamma": {"expr": "{p}sigma"},
              "fwhm": {"expr": "1.0692*{p}gamma + sqrt(0.8664*{p}gamma^2 + 5.545083*{p}sigma^2)"},
              "height": {"expr": "{p}amplitude/maximum(1e-15, {p}sigma*2.5066282746310002)*erfcx({p}gamma/maximum(1e-15, {p}sigma*1.4142135623730951))"}}

    def __init__(self, independent_vars: Any = None, prefix: str = "", nan_policy: str = "raise", name: str | None = None, **options: Any) -> None:
        self._with_gamma(independent_vars, prefix, nan_policy, name, options)

    def _with_gamma(self, independent_vars: Any, prefix: str, nan_policy: str, name: str | None, options: dict[str, Any]) -> None:
        import inspect

        names = [n for n in inspect.signature(type(self).shape).parameters if n != "x"]
        Model.__init__(self, type(self).shape, independent_vars=independent_vars or ["x"], param_names=names, nan_policy=nan_policy, prefix=prefix)
        self._options = {}
        self.name = name or type(self).__name__ + (f"(prefix='{prefix}')" if prefix else "")
        for parameter, hint in type(self).preset.items():
            self.set_param_hint(parameter, **{k: v.replace("{p}", prefix) if isinstance(v, str) else v for k, v in hint.items()})


class PseudoVoigtModel(_Peak):
    """fraction of a lorentzian and the rest of a gaussian of the same half width sigma; derived: fwhm, height."""
    shape = staticmethod(shapes.pvoigt)
    scale = 2.6
    preset = {"sigma": {"min": 0}, "fraction": {"value": 0.5, "min": 0, "max": 1}, "fwhm": {"expr": "2*{p}sigma"},
              "height": {"expr": "((1 - {p}fraction)*{p}amplitude*0.46971863934982566 + {p}fraction*{p}amplitude*0.3183098861837907)/maximum(1e-15, {p}sigma)"}}


class MoffatModel(_Peak):
    """amplitude (1 + ((x - center) / sigma)^2)^-beta; derived: fwhm, height."""
    shape = staticmethod(shapes.moffat)
    preset = {"sigma": {"min": 0}, "beta": {"value": 1.0}, "fwhm": {"expr": "2*{p}sigma*sqrt(2^(1/maximum(1e-3, {p}beta)) - 1)"}, "height": {"expr": "{p}amplitude"}}

    def _guess(self, y: Tensor, x: Tensor, negative: bool = False) -> dict[str, float]:
        height, at, width = _peak(y, x, negative)
        return {"amplitude": height, "center": at, "sigma": width}


class Pearson4Model(_Peak):
    """A Pearson distribution of type IV; derived: position, fwhm."""
    shape = staticmethod(shapes.pearson4)
    scale = pi
    preset = {"sigma": {"min": 0}, "expon": {"value": 1.5, "min": 0.5 + 1e-15}, "skew": {"value": 0.0},
              "position": {"expr": "{p}center - {p}sigma*{p}skew/(2*{p}expon)"},
              "fwhm": {"expr": "{p}sigma*sqrt(2^(1/{p}expon) - 1)*3.141592653589793/atan2(2.718281828459045*{p}expon, {p}skew)"}}


class Pearson7Model(_Peak):
    """A Pearson distribution of type VII; derived: fwhm, height."""
    shape = staticmethod(shapes.pearson7)
    scale = pi
    preset = {"sigma": {"min": 0}, "expon": {"value": 1.5, "min": 0.5 + 1e-15, "max": 100}, "fwhm": {"expr": "2*{p}sigma*sqrt(2^(1/{p}expon) - 1)"},
              "height": {"expr": "{p}amplitude*exp(lgamma({p}expon) - lgamma({p}expon - 0.5))/maximum(1e-15, {p}sigma*1.7724538509055159)"}}


class StudentsTModel(_Peak):
    """Student's distribution with sigma degrees of freedom; derived: fwhm, height."""
    shape = staticmethod(shapes.students_t)
    preset = {"sigma": {"min": 0, "max": 100}, "fwhm": {"expr": "2*sqrt({p}sigma*2^(2/({p}sigma + 1)) - {p}sigma)"},
              "height": {"expr": "{p}amplitude*exp(lgamma(({p}sigma + 1)/2) - lgamma({p}sigma/2))/sqrt({p}sigma*3.141592653589793)"}}


class BreitWignerModel(_Peak):
    """amplitude (q sigma/2 + x - center)^2 / ((sigma/2)^2 + (x - center)^2)."""
    shape = staticmethod(shapes.breit_wigner)
    preset = {"sigma": {"min": 0}, "q": {"value": 1.0}}

    def _guess(self, y: Tensor, x: Tensor, negative: bool = False) -> dict[str, float]:
        height, at, width = _peak(y, x, negative)
        return {"amplitude": height, "center": at, "sigma": 2 * width}


class LognormalModel(_BuiltIn):
    """amplitude / (x sigma sqrt(2 pi)) exp(-(log x - center)^2 / (2 sigma^2)); derived: fwhm, height."""
    shape = staticmethod(shapes.lognormal)
    preset = {"sigma": {"min": 0},
              "height": {"expr": "0.3989422804014327*{p}amplitude/maximum(1e-15, {p}sigma)*exp({p}sigma^2/2 - {p}center)"},
              "fwhm": {"expr": "exp({p}center - {p}sigma^2 + {p}sigma*1.1774100225154747) - exp({p}center - {p}sigma^2 - {p}sigma*1.1774100225154747)"}}

    def _guess(self, y: Tensor, x: Tensor, negative: bool = False) -> dict[str, float]:
        height, at, width = _peak(y, x, negative)
        at = max(at, 1e-12)
        sigma = min(2.0, width / at)
        return {"amplitude": height * at * sigma * 2.5, "center": math.log(at) + sigma ** 2, "sigma": sigma}


class DampedOscillatorModel(_BuiltIn):
    """amplitude / sqrt((1 - (x/center)^2)^2 + (2 sigma x/center)^2); derived: height."""
    shape = staticmethod(shapes.damped_oscillator)
    preset = {"sigma": {"min": 0}, "height": {"expr": "0.5*{p}amplitude/maximum(1e-15, {p}sigma)"}}

    def _guess(self, y: Tensor, x: Tensor, negative: bool = False) -> dict[str, float]:
        height, at, width = _peak(y, x, negative)
        sigma = abs(width / at) if at else 0.1
        return {"amplitude": 2 * height * sigma, "center": at, "sigma": sigma}


class DampedHarmonicOscillatorModel(_Peak):
    """A damped harmonic oscillator at the temperature gamma; derived: fwhm."""
    shape = staticmethod(shapes.dho)
    scale = pi
    preset = {"center": {"min": 0}, "sigma": {"min": 0}, "gamma": {"value": 1.0, "min": 1.0e-19}, "fwhm": {"expr": "2*{p}sigma"}}


class ExponentialGaussianModel(_Peak):
    """A gaussian folded with an exponential decay of the rate gamma."""
    shape = staticmethod(shapes.expgaussian)
    preset = {"sigma": {"min": 0}, "gamma": {"value": 1.0, "min": 0, "max": 20}}


class SkewedGaussianModel(_Peak):
    """A gaussian times 1 + erf(gamma (x - center) / (sigma sqrt 2))."""
    shape = staticmethod(shapes.skewed_gaussian)
    preset = {"sigma": {"min": 0}, "gamma": {"value": 0.0}}


class SkewedVoigtModel(VoigtModel):
    """A voigt times 1 + erf(skew (x - center) / (sigma sqrt 2)); gamma follows sigma."""
    shape = staticmethod(shapes.skewed_voigt)
    preset = {"sigma": {"min": 0}, "gamma": {"expr": "{p}sigma"}, "skew": {"value": 0.0}}


class DoniachModel(_Peak):
    """The asymmetric line of Doniach and Sunjic; derived: height."""
    shape = staticmethod(shapes.doniach)
    scale = 1.0
    preset = {"gamma": {"value": 0.0},
              "height": {"expr": "{p}amplitude*{p}sigma^({p}gamma - 1)*cos(3.141592653589793*{p}gamma/2)"}}


class ThermalDistributionModel(_BuiltIn):
    """amplitude / (exp((x - center) / kt) + s) with form "bose", "fermi" or "maxwell"."""
    shape = staticmethod(shapes.thermal_distribution)

    def __init__(self, independent_vars: Any = ("x",), prefix: str = "", nan_policy: str = "raise", form: str = "bose", name: str | None = None) -> None:
        super().__init__([n for n in independent_vars if n != "form"], prefix, nan_policy, name, form=form)

    def _guess(self, y: Tensor, x: Tensor, negative: bool = False) -> dict[str, float]:
        return {"amplitude": y.abs().max().item() or 1.0, "center": x.mean().item(), "kt": (x.max() - x.min()).item() / 10 or 1.0}


class BoseModel(ThermalDistributionModel):
    """amplitude / (exp((x - center) / kt) - 1)."""

    def __init__(self, independent_vars: Any = ("x",), prefix: str = "", nan_policy: str = "raise", name: str | None = None) -> None:
        super().__init__(independent_vars, prefix, nan_policy, "bose", name)


class FermiModel(ThermalDistributionModel):
    """amplitude / (exp((x - center) / kt) + 1)."""

    def __init__(self, independent_vars: Any = ("x",), prefix: str = "", nan_policy: str = "raise", name: str | None = None) -> None:
        super().__init__(independent_vars, prefix, nan_policy, "fermi", name)


# ---- steps ----

class StepModel(_BuiltIn):
    """From 0 to amplitude around center; form is "linear", "atan", "erf" or "logistic"."""
    shape = staticmethod(shapes.step)

    def __init__(self, independent_vars: Any = ("x",), prefix: str = "", nan_policy: str = "raise", form: str = "linear", name: str | None = None) -> None:
        super().__init__([n for n in independent_vars if n != "form"], prefix, nan_policy, name, form=form)

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        low, high, places = y.min().item(), y.max().item(), x.tolist()
        values = y.tolist()
        rising = values[-1] >= values[0]
        inside = [p for p, v in zip(places, values) if low + 0.1 * (high - low) < v < high - 0.1 * (high - low)]
        span = max(places) - min(places)
        at = sum(inside) / len(inside) if inside else sum(places) / len(places)
        return {"amplitude": (high - low) * (1 if rising else -1), "center": at, "sigma": max((max(inside) - min(inside)) / 2 if inside else 0.0, span / 14, 1e-12)}


class RectangleModel(_BuiltIn):
    """A step up at center1 and one down at center2; derived: midpoint."""
    shape = staticmethod(shapes.rectangle)
    preset = {"center1": {}, "center2": {}, "midpoint": {"expr": "({p}center1 + {p}center2)/2"}}

    def __init__(self, independent_vars: Any = ("x",), prefix: str = "", nan_policy: str = "raise", form: str = "linear", name: str | None = None) -> None:
        super().__init__([n for n in independent_vars if n != "form"], prefix, nan_policy, name, form=form)

    def _guess(self, y: Tensor, x: Tensor) -> dict[str, float]:
        low, high, places = y.min().item(), y.max().item(), x.tolist()
        inside = [p for p, v in zip(places, y.tolist()) if v > (low + high) / 2] or places
        span = max(places) - min(places)
        return {"amplitude": high - low, "center1": min(inside), "sigma1": span / 14, "center2": max(inside), "sigma2": span / 14}
