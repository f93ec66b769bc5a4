"""Shapes of lines and steps as functions of tensors or arrays: gaussian, lorentzian, voigt, step and others.

amplitude is the area of a peak where not said otherwise, center its place, sigma its width.  With a tensor among the arguments the result is
one, with gradients; otherwise an array."""
from __future__ import annotations

import functools
import math
from math import inf, pi

from .. import _core
from .._core import Tensor
from .._functions import custom_vjp
from .._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

ROOT2, ROOT2PI, TINY = math.sqrt(2), math.sqrt(2 * pi), 1e-15


def _shape(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Numbers and arrays become tensors, and the result an array again if no argument was a tensor."""
    @functools.wraps(fn)
    def shape(*given: Any, **named: Any) -> Any:
        if any(isinstance(v, Tensor) for v in (*given, *named.values())):
            return fn(*map(_made, given), **{n: _made(v) for n, v in named.items()})
        made = fn(*map(_made, given), **{n: _made(v) for n, v in named.items()})
        return made.numpy() if made.ndim else made.item()
    return shape


def _made(v: Any) -> Any:
    return v if isinstance(v, (Tensor, str)) or v is None else tensor(v).to("f64")


def _positive(v: Any) -> Any:
    """Not 0, so that it divides."""
    return _core.where(v.abs() < TINY, _made(TINY), v) if isinstance(v, Tensor) else v


# ---- functions that peaks are made of ----

def _coefficients(count: int) -> tuple[float, list[float]]:
    """The expansion of Weideman (1994) of the Faddeeva function, by a sum over the samples of a period."""
    samples = 2 * count
    length = math.sqrt(count / math.sqrt(2))
    values = []
    for k in range(-samples + 1, samples):
        t = length * math.tan(k * pi / samples / 2)
        values.append((k, math.exp(-t * t) * (length * length + t * t)))
    found = []
    for n in range(1, count + 1):
        found.append(sum(v * math.cos(pi * k * n / samples) for k, v in values) / (2 * samples))
    return length, found[::-1]


@functools.cache
def _expansion() -> tuple[float, list[float]]:
    return _coefficients(40)


def _faddeeva(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The real and imaginary part of w(x + i y) for y >= 0, without history."""
    length, coefficients = _expansion()
    # z = (L + i(x+iy)) / (L - i(x+iy)) = (L - y + i x) / (L + y - i x)
    a, b = length - y, length + y
    size = b * b + x * x
    zr, zi = (a * b - x * x) / size, (x * (a + b)) / size
    pr, pi_ = zr * 0 + coefficients[0], zr * 0
    for c in coefficients[1:]:
        pr, pi_ = pr * zr - pi_ * zi + c, pr * zi + pi_ * zr
    dr, di = b / size, x / size  # 1 / (L - i z)
    sr, si = dr * dr - di * di, 2 * dr * di
    root = 1 / math.sqrt(pi)
    return 2 * (pr * sr - pi_ * si) + root * dr, 2 * (pr * si + pi_ * sr) + root * di


@custom_vjp
def _real_part(x: Tensor, y: Tensor) -> Tensor:
    return _faddeeva(x, y)[0]


@custom_vjp
def _imaginary_part(x: Tensor, y: Tensor) -> Tensor:
    return _faddeeva(x, y)[1]


def _kept(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The parts again where second derivatives are wanted."""
    if _core.grad_enabled():
        return x, y, _real_part(x, y), _imaginary_part(x, y)
    return x, y, *_faddeeva(x, y)


def _slopes(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Of the real part by x and y: w' = -2 z w + 2 i / sqrt(pi)."""
    x, y, k, i = _kept(x, y)
    return 2 * (y * i - x * k), 2 * (x * i + y * k - 1 / math.sqrt(pi))


def _of_real(at: Any, grad: Tensor) -> Any:
    by_x, by_y = _slopes(*at)
    return grad * by_x, grad * by_y


def _of_imaginary(at: Any, grad: Tensor) -> Any:
    by_x, by_y = _slopes(*at)
    return -grad * by_y, grad * by_x


_real_part.defvjp(lambda x, y: (_real_part.fun(x, y), (x, y)), _of_real)
_imaginary_part.defvjp(lambda x, y: (_imaginary_part.fun(x, y), (x, y)), _of_imaginary)


def _real_faddeeva(x: Tensor, y: Tensor) -> Tensor:
    """Re w(x + i y); for negative y by the reflection."""
    both = x + y * 0
    side = y + both * 0
    up: Tensor = _real_part(both, side.abs())
    if (side >= 0).all().item():
        return up
    mirrored: Tensor = _core.where(side >= 0, up, 2 * ((side * side - both * both).exp()) * (2 * both * side).cos() - up)
    return mirrored


@_shape
def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x)."""
    return _real_faddeeva(x * 0, x)


def _log_abs_gamma(a: Any, b: Any) -> Any:
    """log |Gamma(a + i b)| for a > 0, by Stirling's series of a + 12."""
    shifted = a * 0
    for k in range(12):
        shifted = shifted + 0.5 * ((a + k).square() + b.square()).log()
    r, angle = a + 12, _core.atan2(b, a + 12)
    size2 = r.square() + b.square()
    total = (r - 0.5) * 0.5 * size2.log() - b * angle - r + 0.5 * math.log(2 * pi)
    pr, pj = r / size2, -b / size2  # 1 / z, and its powers
    zr, zj = pr.square() - pj.square(), 2 * pr * pj
    for c in (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360):
        total = total + c * pr
        pr, pj = pr * zr - pj * zj, pr * zj + pj * zr
    return total - shifted


def _log_beta(a: Any, b: Any) -> Any:
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


# ---- peaks ----

@_shape
def gaussian(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0) -> Any:
    """amplitude / (sigma sqrt(2 pi)) exp(-(x - center)^2 / (2 sigma^2))."""
    sigma = _positive(sigma)
    return amplitude / (ROOT2PI * sigma) * (-((x - center) / sigma).square() / 2).exp()


@_shape
def gaussian2d(x: Any, y: Any = 0.0, amplitude: Any = 1.0, centerx: Any = 0.0, centery: Any = 0.0, sigmax: Any = 1.0, sigmay: Any = 1.0) -> Any:
    """The product of two gaussians, with the volume amplitude."""
    return gaussian(x, amplitude, centerx, sigmax) * gaussian(y, _made(1.0), centery, sigmay)


@_shape
def lorentzian(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0) -> Any:
    """amplitude / (pi sigma) / (1 + ((x - center) / sigma)^2)."""
    sigma = _positive(sigma)
    return amplitude / (pi * sigma) / (1 + ((x - center) / sigma).square())


@_shape
def split_lorentzian(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, sigma_r: Any = 1.0) -> Any:
    """A lorentzian of the width sigma below center and sigma_r above."""
    width2 = _core.where(x < center, sigma.square() + x * 0, sigma_r.square() + x * 0)
    return 2 * amplitude / (pi * _positive(sigma + sigma_r)) * width2 / ((x - center).square() + width2)


@_shape
def voigt(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, gamma: Any = None) -> Any:
    """The convolution of a gaussian of the width sigma with a lorentzian of the width gamma, which is sigma if not given."""
    sigma = _positive(sigma)
    gamma = sigma if gamma is None else gamma
    return amplitude / (ROOT2PI * sigma) * _real_faddeeva((x - center) / (ROOT2 * sigma), gamma / (ROOT2 * sigma))


@_shape
def pvoigt(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, fraction: Any = 0.5) -> Any:
    """fraction of a lorentzian and the rest of a gaussian with the same half width sigma."""
    return (1 - fraction) * gaussian(x, amplitude, center, sigma / math.sqrt(2 * math.log(2))) + fraction * lorentzian(x, amplitude, center, sigma)


@_shape
def moffat(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, beta: Any = 1.0) -> Any:
    """amplitude (1 + ((x - center) / sigma)^2)^-beta; amplitude is the height."""
    return amplitude * (-beta * ((x - center) / _positive(sigma)).square().log1p()).exp()


@_shape
def pearson4(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, expon: Any = 1.0, skew: Any = 0.0) -> Any:
    """A Pearson distribution of type IV: expon is its exponent, skew its asymmetry."""
    arg = (x - center) / _positive(sigma)
    scale = 2 * (_log_abs_gamma(expon, skew / 2) - expon.lgamma()) - _log_beta(expon - 0.5, expon * 0 + 0.5) - _positive(sigma).abs().log()
    return amplitude * (scale - expon * arg.square().log1p() - skew * arg.atan()).exp()


@_shape
def pearson7(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, expon: Any = 1.0) -> Any:
    """A Pearson distribution of type VII."""
    arg = (x - center) / _positive(sigma)
    return amplitude / _positive(sigma) * (-_log_beta(expon - 0.5, expon * 0 + 0.5) - expon * arg.square().log1p()).exp()


@_shape
def students_t(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0) -> Any:
    """Student's distribution with sigma degrees of freedom around center."""
    half = (sigma + 1) / 2
    scale = half.lgamma() - (sigma / 2).lgamma() - 0.5 * (sigma * pi).log()
    return amplitude * (scale - half * ((x - center).square() / _positive(sigma)).log1p()).exp()


@_shape
def breit_wigner(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, q: Any = 1.0) -> Any:
    """The resonance of Breit, Wigner and Fano: amplitude (q sigma/2 + x - center)^2 / ((sigma/2)^2 + (x - center)^2)."""
    half = sigma / 2
    return amplitude * (q * half + x - center).square() / _positive(half.square() + (x - center).square())


@_shape
def damped_oscillator(x: Any, amplitude: Any = 1.0, center: Any = 1.0, sigma: Any = 0.1) -> Any:
    """amplitude / sqrt((1 - (x/center)^2)^2 + (2 sigma x/center)^2): the response of a damped oscillator."""
    ratio = x / _positive(center)
    return amplitude / ((1 - ratio.square()).square() + (2 * sigma * ratio).square()).sqrt()


@_shape
def dho(x: Any, amplitude: Any = 1.0, center: Any = 1.0, sigma: Any = 1.0, gamma: Any = 1.0) -> Any:
    """A damped harmonic oscillator at the temperature gamma, both lines."""
    near = (x.abs() < TINY)
    ratio = _core.where(near, _made(1.0), x / _positive(gamma))
    factor = 1 / -(-ratio).expm1()
    lines = 1 / ((x - center).square() + sigma.square()) - 1 / ((x + center).square() + sigma.square())
    limit = 4 * gamma * center / (center.square() + sigma.square()).square()
    return amplitude * sigma / pi * _core.where(near, limit + x * 0, factor * lines)


@_shape
def logistic(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0) -> Any:
    """amplitude / (1 + exp(-(x - center) / sigma))."""
    return amplitude * ((x - center) / _positive(sigma)).sigmoid()


@_shape
def lognormal(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0) -> Any:
    """amplitude / (x sigma sqrt(2 pi)) exp(-(log x - center)^2 / (2 sigma^2))."""
    sigma = _positive(sigma)
    inside = _core.where(x < TINY, _made(TINY), x)
    return amplitude / (ROOT2PI * inside * sigma) * (-((inside.log() - center) / sigma).square() / 2).exp()


@_shape
def expgaussian(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, gamma: Any = 1.0) -> Any:
    """A gaussian folded with an exponential decay of the rate gamma."""
    low = gamma * sigma.square()
    arg = (center + low - x) / (ROOT2 * _positive(sigma))
    # exp(gamma (center - x + low / 2)) erfc(arg) by the scaled function where both leave the numbers
    far = arg > 5
    plain = (gamma * (center - x + low / 2)).clamp(-inf, 600.0).exp() * arg.erfc()
    scaled = (-((x - center) / _positive(sigma)).square() / 2).exp() * _real_faddeeva(arg * 0, _core.where(far, arg, arg * 0))
    return amplitude * gamma / 2 * _core.where(far, scaled, plain)


@_shape
def doniach(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, gamma: Any = 0.0) -> Any:
    """The asymmetric line of Doniach and Sunjic; gamma is the asymmetry."""
    arg, rest = (x - center) / _positive(sigma), 1 - gamma
    return amplitude * (-rest * _positive(sigma).log()).exp() * (pi * gamma / 2 + rest * arg.atan()).cos() * (-rest / 2 * arg.square().log1p()).exp()


@_shape
def skewed_gaussian(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, gamma: Any = 0.0) -> Any:
    """A gaussian times 1 + erf(gamma (x - center) / (sigma sqrt 2))."""
    return (1 + (gamma * (x - center) / (ROOT2 * _positive(sigma))).erf()) * gaussian(x, amplitude, center, sigma)


@_shape
def skewed_voigt(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, gamma: Any = None, skew: Any = 0.0) -> Any:
    """A voigt times 1 + erf(skew (x - center) / (sigma sqrt 2))."""
    return (1 + (skew * (x - center) / (ROOT2 * _positive(sigma))).erf()) * voigt(x, amplitude, center, sigma, gamma)


# ---- waves, steps and simple functions ----

@_shape
def sine(x: Any, amplitude: Any = 1.0, frequency: Any = 1.0, shift: Any = 0.0) -> Any:
    """amplitude sin(frequency x + shift)."""
    return amplitude * (x * frequency + shift).sin()


@_shape
def expsine(x: Any, amplitude: Any = 1.0, frequency: Any = 1.0, shift: Any = 0.0, decay: Any = 0.0) -> Any:
    """amplitude sin(frequency x + shift) exp(-decay x)."""
    return amplitude * (x * frequency + shift).sin() * (-x * decay).exp()


@_shape
def thermal_distribution(x: Any, amplitude: Any = 1.0, center: Any = 0.0, kt: Any = 1.0, form: str = "bose") -> Any:
    """amplitude / (exp((x - center) / kt) + s): s is -1 for "bose", 1 for "fermi" and 0 for "maxwell"."""
    added = {"bose": -1.0, "fermi": 1.0, "maxwell": 0.0}.get(form.lower())
    if added is None:
        raise ValueError(f"thermal_distribution: form is 'bose', 'fermi' or 'maxwell', not {form!r}")
    return amplitude / (((x - center) / _positive(kt)).exp() + added)


@_shape
def bose(x: Any, amplitude: Any = 1.0, center: Any = 0.0, kt: Any = 1.0) -> Any:
    """thermal_distribution of the form "bose"."""
    return thermal_distribution(x, amplitude, center, kt, form="bose")


@_shape
def fermi(x: Any, amplitude: Any = 1.0, center: Any = 0.0, kt: Any = 1.0) -> Any:
    """thermal_distribution of the form "fermi"."""
    return thermal_distribution(x, amplitude, center, kt, form="fermi")


FORMS = ("linear", "atan", "arctan", "erf", "logistic")


def _rise(u: Any, form: str) -> Any:
    """From 0 to 1 around u = 0."""
    if form == "linear":
        return (u + 0.5).clamp(0.0, 1.0)
    if form == "erf":
        return 0.5 * (1 + u.erf())
    if form == "logistic":
        return u.sigmoid()
    return 0.5 + u.atan() / pi


def _form(form: str) -> str:
    if str(form).lower() not in FORMS:
        raise ValueError(f"step: form is {', '.join(map(repr, FORMS))}, not {form!r}")
    return str(form).lower()


@_shape
def step(x: Any, amplitude: Any = 1.0, center: Any = 0.0, sigma: Any = 1.0, form: str = "linear") -> Any:
    """From 0 to amplitude around center: form is "linear", "atan", "erf" or "logistic"."""
    return amplitude * _rise((x - center) / _positive(sigma), _form(form))


@_shape
def rectangle(x: Any, amplitude: Any = 1.0, center1: Any = 0.0, sigma1: Any = 1.0, center2: Any = 1.0, sigma2: Any = 1.0, form: str = "linear") -> Any:
    """A step up at center1 and one down at center2."""
    form = _form(form)
    return amplitude * (_rise((x - center1) / _positive(sigma1), form) + _rise((center2 - x) / _positive(sigma2), form) - 1)


@_shape
def exponential(x: Any, amplitude: Any = 1.0, decay: Any = 1.0) -> Any:
    """amplitude exp(-x / decay)."""
    return amplitude * (-x / _positive(decay)).exp()


@_shape
def powerlaw(x: Any, amplitude: Any = 1.0, exponent: Any = 1.0) -> Any:
    """amplitude x^exponent."""
    return amplitude * x ** exponent


@_shape
def linear(x: Any, slope: Any = 1.0, intercept: Any = 0.0) -> Any:
    """slope x + intercept."""
    return slope * x + intercept


@_shape
def parabolic(x: Any, a: Any = 0.0, b: Any = 0.0, c: Any = 0.0) -> Any:
    """a x^2 + b x + c."""
    return a * x.square() + b * x + c


@_shape
def constant(x: Any, c: Any = 0.0) -> Any:
    """c at every x."""
    return x * 0 + c
