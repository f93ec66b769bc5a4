"""fit: a model, text or function, fitted to a table in this process."""
from __future__ import annotations

from collections import namedtuple

from . import _core
from ._core import Tensor
from ._solve import Result, _as_tensor
from ._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NamedTuple, Sequence


class Picture:
    """A picture as SVG: shown in notebooks, written by save()."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Any) -> None:
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.svg)

    def __repr__(self) -> str:
        return f"<Picture, {len(self.svg)} bytes of SVG>"


if TYPE_CHECKING:

    class Comparison(NamedTuple):
        """Two fits of the same rows."""

        f: float
        p: float
        nested: bool
        why: str | None
        aicc: float
        other_aicc: float
        evidence_ratio: float
else:
    Comparison = namedtuple("Comparison", "f p nested why aicc other_aicc evidence_ratio")
    Comparison.__doc__ = """Two fits of the same rows.

    f, p              F-test of the smaller inside the larger model; NaN: not nested
    nested            all parameters of the smaller are parameters of the larger, and the larger fits no worse
    why               why there is no F-test; None: there is one
    aicc, other_aicc  of the fit whose compare was called, and of the other; smaller is better
    evidence_ratio    how much more likely the better one is by AICc"""


class Fit(Result):
    """The result of fit, with the entries of `gradus fit --json`.

    params                   the parameters by name
    stderr, interval         standard errors and 95 % intervals by name
    intervals                the kind of the intervals
    covariance, correlation  matrices in the order of names
    derived                  the quantities of derive=
    active, undetermined     parameters that a bound holds, and those that the data do not determine
    rss, sigma, dof, points  sum of squared residuals, their standard deviation, degrees of freedom, rows
    rank                     the number of parameters that the data determine
    r2, log_likelihood       goodness of fit
    aic, aicc, bic           for comparing models
    chi_square_p             with absolute_sigma the probability of larger residuals, else None
    loss                     the loss of residuals
    success, converged       has it converged, with all parameters determined?
    message, reason, stop    the reason for stopping, as text and as a name
    nit, steps, nfev, evals  steps and evaluations
    seconds                  the time it took
    report                   the report of the program, as text
    names                    the parameters in the order of the matrices"""

    if TYPE_CHECKING:
        params: dict[str, float]
        stderr: dict[str, float | None]
        interval: dict[str, list[float | None]]
        intervals: str
        covariance: list[list[float | None]]
        correlation: list[list[float | None]]
        derived: dict[str, Any]
        active: list[str]
        undetermined: list[str]
        rss: float
        sigma: float
        dof: int
        points: int
        rank: int
        r2: float
        log_likelihood: float
        aic: float
        aicc: float
        bic: float
        chi_square_p: float | None
        loss: str
        converged: bool
        reason: str
        steps: int
        evals: int
        report: str
        names: list[str]

    def __repr__(self) -> str:
        return str(self["report"])

    def _repr_html_(self) -> str:
        import html

        rows = "".join(f"<tr><td>{html.escape(n)}</td><td>{_shown(v)}</td><td>{_shown(self['stderr'][n])}</td></tr>"
                       for n, v in self["params"].items())
        return f"<table><tr><th>parameter</th><th>value</th><th>std. error</th></tr>{rows}</table>"

    def plot(self, log: str = "", dark: bool = False) -> Picture:
        """Data, fitted curve with its band, and residuals.  log: axes that are logarithmic, "x", "y" or "xy"."""
        if log not in ("", "x", "y", "xy"):
            raise ValueError(f"plot: log= is 'x', 'y' or 'xy', not {log!r}")
        return Picture(_told(lambda: self._fitted().svg("x" in log, "y" in log, dark)))

    def predict(self, table: Any) -> Tensor:
        """The model at the rows of a table [rows, 5]: value, ends of the confidence band, ends of the prediction band, by label."""
        found: Tensor = _told(lambda: self._fitted().predict(_predicted(table)))
        return found

    def residuals(self) -> Tensor:
        """y less the model at the fitted rows; for errors in x the distances from its curve."""
        found: Tensor = _told(lambda: self._fitted().rows(1))
        return found

    def fitted(self) -> Tensor:
        """The model at the fitted rows."""
        found: Tensor = _told(lambda: self._fitted().rows(0))
        return found

    def standardized(self) -> Tensor:
        """Residuals divided by their standard deviation; NaN if that is not known."""
        found: Tensor = _told(lambda: self._fitted().rows(2))
        return found

    def compare(self, other: Fit) -> Comparison:
        """This fit and a second one of the same rows: F-test and AICc, as `gradus compare` prints them.  ValueError: different rows, or a
        fit without a likelihood."""
        if not isinstance(other, Fit):
            raise TypeError(f"compare: a Fit, not {type(other).__name__}")
        return Comparison(*_told(lambda: self._fitted().compare(other._fitted())))

    def save(self, path: Any) -> None:
        """Writes the fit as .safetensors, for `gradus predict` and `gradus compare`."""
        _told(lambda: self._fitted().write("out", path))

    def export(self, path: Any) -> None:
        """Writes the fitted function as .c, .py or .tex."""
        _told(lambda: self._fitted().write("export", path))

    def _fitted(self) -> Any:
        if "_fit" not in self:
            raise _core.StateError("a fit that was copied or unpickled has its numbers, not its data")
        return self["_fit"]

    def __reduce__(self) -> Any:
        return type(self), ({key: value for key, value in self.items() if key != "_fit"},)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else str(value)


# ---- tables ----

def _predicted(table: Any) -> Any:
    from ._tables import as_read_from_text, read

    return as_read_from_text(read(table, "predict"))


def _texts_in(value: Any) -> list[str]:
    """All texts of an option."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [t for k, v in value.items() for t in (str(k), *_texts_in(v))]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _texts_in(v)]
    return []


def _read(table: Any, model: Any, *settings: Any) -> Any:
    """The table as the library takes it: with the columns that the texts name, and others of numbers."""
    from ._tables import as_read_from_text, read

    if callable(model):
        import inspect

        model = list(inspect.signature(model).parameters)
    texts = [t for s in (model, *settings) for t in _texts_in(s)]
    return as_read_from_text(read(table, "fit", lambda name: any(name in t or t and name.startswith(t) for t in texts)))


# ---- what the library says ----

def _of_rows(text: str) -> str:
    """A table from memory has no lines: rows, counted from 1."""
    import re

    text = re.sub(r"(?<!the )\btable: line (\d+)", lambda found: f"the table: row {int(found[1]) - 1}", text)
    text = re.sub(r"(?<!the )\btable\b(?=:)", "the table", text)
    return re.sub(r"\bthe table: line (\d+)", r"the table: row \1", text)


def _told(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except _core.Error as error:
        kind = type(error)
        usage = not isinstance(error, (_core.FormatError, _core.FileError, _core.CallbackError, _core.StateError))
        raise (_core.ParseError if usage and kind.__name__ in ("ArgumentError", "ShapeError") else kind)(_of_rows(str(error))) from None


# ---- parameters and options ----

def _start(name: str, value: Any) -> Any:
    """A number, a Tensor of f64, or None: to be guessed."""
    if value is None:
        return None
    if isinstance(value, str):
        import json

        try:
            value = json.loads(value)
        except ValueError:
            raise _core.ParseError(f"params= {name}: a number, a list or an array is needed, not {value!r}") from None
    if hasattr(value, "__float__") and not getattr(value, "shape", ()):
        return float(value)
    return tensor(value).detach().to("f64").copy()


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    return tuple(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else tuple(map(str, value))


_AS_THEY_ARE = ("weights", "sigma", "absolute_sigma", "dates", "loss", "errors", "intervals", "level", "guess", "starts", "chain", "device", "seed",
                "no_header", "max_bytes", "by_rows", "max_evals", "max_seconds")
_LISTS = {"x_errors": "x_errors", "exclude": "exclude", "bound": "bounds", "bounds": "bounds", "derive": "derive"}
_OTHERS = ("group_starts", "steps", "missing", "separator", "decimal", "encoding", "def", "fix", "tied", "out", "export", "residuals")
_ENCODINGS = ("utf-8", "latin1", "windows-1252", "utf-16")


def _choice(key: str, value: Any, choices: tuple[str, ...]) -> int:
    if value in choices:
        return choices.index(value)
    raise _core.ParseError(f"fit: {key}= is one of {', '.join(choices)}, not {value!r}")


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `gradus fit` as the entries that _core._fit takes."""
    import difflib

    out: dict[str, Any] = {}
    for key, value in options.items():
        if key in _AS_THEY_ARE:
            out[key] = value
        elif key in _LISTS:
            out[_LISTS[key]] = out.get(_LISTS[key], ()) + _texts(value)
        elif key == "steps":
            out["max_steps"] = value
        elif key == "missing":
            out["drop_missing"] = _choice(key, value, ("error", "drop")) == 1
        elif key == "separator" and value is not None:
            out[key] = {"tab": "\t", "space": " ", "width": "\1"}.get(value, value)
            if len(out[key]) != 1:
                raise _core.ParseError(f"fit: separator= is one character, tab, space or width, not {value!r}")
        elif key == "decimal":
            out["comma"] = _choice(key, value, ("point", "comma")) == 1
        elif key == "encoding":
            out[key] = _choice(key, value, _ENCODINGS)
        elif key == "def":
            with open(value, encoding="utf-8") as f:
                out["definitions"], out["definitions_file"] = f.read(), str(value)
        elif key == "threads":
            raise _core.ParseError("fit: threads= belongs to the context: gradus.Context(threads=2)")
        elif key not in _OTHERS:
            near = difflib.get_close_matches(key, [*_AS_THEY_ARE, *_LISTS, *_OTHERS], 1)
            raise _core.ParseError(f"fit: unknown option {key}=" + (f", did you mean {near[0]}=?" if near else ""))
    return out


def _entries(params: Any, fix: Any, tied: Any) -> list[tuple[Any, ...]]:
    """(name, start, low, high, fixed, tied) of each."""
    if hasattr(params, "items"):  # a dict, or a Series of pandas
        given = dict(params.items())
    else:
        given = {name: None for name in (() if params is None else params)}
    return [*((str(name), _start(name, value), 0.0, 0.0, False, None) for name, value in given.items()),
            *((str(name), _start(name, value), 0.0, 0.0, True, None) for name, value in (fix or {}).items()),
            *((str(name), 0.0, 0.0, 0.0, False, str(text)) for name, text in (tied or {}).items())]


def _function(model: Callable[..., Any], entries: list[tuple[Any, ...]], table: Any) -> tuple[Any, list[str]]:
    """What the library calls with parameters, then columns; and the columns.  Its other arguments become parameters that start at 1."""
    import inspect

    from ._tables import names_in

    arguments = list(inspect.signature(model).parameters.values())
    if any(a.kind in (a.VAR_POSITIONAL, a.VAR_KEYWORD) for a in arguments):
        raise _core.ParseError("fit: a model names all of its arguments: columns of the table and parameters")
    names = [a.name for a in arguments]
    columns, known = names_in(table), {entry[0].partition("[")[0] for entry in entries}
    if columns is None and not entries:
        raise _core.ParseError("fit: params= says which arguments of the model are parameters, the others are columns")
    used = [name for name in names if name not in known and (columns is None or name in columns)]
    entries += [(name, 1.0, 0.0, 0.0, False, None) for name in names if name not in known and name not in used]
    order = [entry[0].partition("[")[0] for entry in entries] + used
    unused = [name for name in order if name not in names]
    if unused:
        raise _core.ParseError(f"params= {unused[0]}: the model does not use it")
    places = [order.index(name) for name in names]

    def call(*values: Tensor) -> Any:
        return _as_tensor(model(*(values[k] for k in places)))

    return (call, len(entries), len(used)), used


class Fits(dict):  # type: ignore[type-arg]
    """The result of fit_many: a dict of lists with an entry per group, and plot()."""

    _draw: Any = None

    def __reduce__(self) -> Any:
        return Fits, (dict(self),)

    def plot(self, path: Any = None, groups: Any = None, log: str = "", dark: bool = False) -> Picture | None:
        """Points and fitted curve of chosen groups, in one colour each.  Nothing is fitted again; the table of fit_many is read again.

        path     a .svg, .png or .pdf file; None: a Picture is returned
        groups   the cells of each, up to 16: [0, 2], ["A", "B"], of two columns [("A", 0), ("B", 1)]; None: the first 8
        log      axes that are logarithmic, "x", "y" or "xy"."""
        from ._tables import read

        if log not in ("", "x", "y", "xy"):
            raise ValueError(f"plot: log= is 'x', 'y' or 'xy', not {log!r}")
        if self._draw is None:
            raise ValueError("plot: a copy of the result of fit_many does not know its table")
        given = None if groups is None else (groups,) if isinstance(groups, str) else tuple(map(_group_name, groups))
        if given == ():
            raise ValueError("plot: groups= names no group")
        fits = read({name: values for name, values in self.items() if name != "stop"}, "plot")
        drawn = self._draw({"fits": fits, "groups": given, "path": None if path is None else str(path), "dark": dark,
                            "log_x": "x" in log, "log_y": "y" in log})
        return None if path is not None else Picture(drawn)


def _group_name(group: Any) -> str:
    if isinstance(group, (tuple, list)):
        return "/".join(map(_group_name, group))
    return repr(int(group)) if isinstance(group, float) and group.is_integer() and abs(group) < 1e15 else str(group)


def _run(model: str | Callable[..., Any], table: Any, y: str | None, params: Any, options: dict[str, Any], by: tuple[str, ...]) -> Any:
    read = _read(table, model, y or "y", options, by)
    settings = {"y": y, **_settings(options), "by": by}
    starts = options.get("group_starts")
    if starts is not None:
        from ._tables import as_read_from_text, read as read_table

        settings["group_starts"] = as_read_from_text(read_table(starts, "fit"))
    entries, call = _entries(params, options.get("fix"), options.get("tied")), None
    if callable(model):
        call, settings["columns"] = _function(model, entries, read)
        settings["columns"] = tuple(settings["columns"])
        settings["model"] = getattr(model, "__name__", "function")
    else:
        settings["model"] = model
    ran = _told(lambda: _core._fit(read, tuple(entries), settings, call))
    if not by:
        return ran
    fits = Fits(ran)
    # streams are read once: a picture reads the table again
    fits._draw = lambda picture: _told(lambda: _core._fit(_read(table, model, y or "y", options, by), tuple(entries), {**settings, **picture}, call))
    return fits


def fit_many(model: str | Callable[..., Any], table: Any, by: str | Sequence[str], y: str | None = None, params: Any = None,
             **options: Any) -> Fits:
    """Fits each group of the rows of a table separately, on all threads of the context.

        fits = gd.fit_many("a*exp(-b*t)+c", "wells.csv", by=["plate", "well"], params={"a": 1, "b": 1, "c": 0})
        fits["a"], fits["a_error"], fits["converged"]
        fits.plot("fits.svg", groups=[("A", 0), ("B", 1)])
        pandas.DataFrame(fits)

    by       the columns whose cells define the groups: one name or several
    group_starts   a table with a row per group: the columns of `by`, starts in columns named like parameters, bounds in NAME_low and
             NAME_high; a missing cell or row: as for all.  The result of an earlier fit_many is one
    others   as of gd.fit; out= a .csv file is for `gradus fit --by`

    Returns a dict of lists with an entry per group, in the order of the cells of `by`: these columns, points, each parameter and
    NAME_error, derived quantities, rss, sigma, dof, converged (1 or 0), stop.  A group that cannot be fitted warns and has NaN."""
    names = (by,) if isinstance(by, str) else tuple(map(str, by))
    if not names:
        raise _core.ParseError("fit_many: by= names no column")
    for key in ("out", "residuals", "export"):
        if options.get(key) is not None:
            raise _core.ParseError(f"fit_many: {key}= is for one fit")
    fits: Fits = _run(model, table, y, params, options, names)
    return fits


def fit(model: str | Callable[..., Any], table: Any, y: str | None = None, params: Any = None, **options: Any) -> Fit:
    """Fits a model to a table, as the program `gradus fit` does, in this process.

        fit("a*exp(-b*t)+c", {"t": t, "y": y}, params={"a": 1, "b": 1, "c": 0}).plot()
        fit(lambda t, a, b: a * gd.exp(-b * t), "decay.csv", params={"a": 1, "b": 1})

    model    an expression of parameters and columns, an equation, or a function of tensors whose arguments are named like them
    table    a path (.csv, .npy, .npz, .safetensors), a dict of columns, a data frame, a structured array, an Arrow table; only the used columns
             are read
    y        the column that the model describes; None: "y", or the equation's
    params   starting values, {name: value}; a list of names with guess=True
    options  those of `gradus fit`: sigma="s", bound=["b>0"], loss="huber", errors="hc3", intervals="profile", guess=True, derive={...}, fix={...}, ...;
             tied={name: "2*a"} has parameters that follow from others; level is that of intervals and bands"""
    return _result(_run(model, table, y, params, options, ()), options)


def _result(fitted: Any, options: dict[str, Any]) -> Fit:
    import json

    found = json.loads(fitted.report(True))
    out = Fit({**found, "report": fitted.report(False).strip("\n"), "success": found["converged"], "message": found["reason"],
               "nit": found["steps"], "nfev": found["evals"]})
    out["_fit"] = fitted
    for key in ("out", "residuals", "export"):
        for path in _texts(options.get(key)) if key == "export" else filter(None, [options.get(key)]):
            _told(lambda: fitted.write(key, path))
    return out
