"""Tables of Python as columns that the library takes: paths, dicts, data frames, structured arrays, Arrow streams.

Columns of numbers are not copied where they are f64 in memory; nothing is written to files."""
from __future__ import annotations

import os

from . import _core
from ._core import Tensor
from ._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable

    Column = tuple[str, str, Any]
    # (path,), columns (name, "numbers" | "dates" | "days" | "words", values), or an Arrow stream with the names wanted
    Table = tuple[Any, ...] | list[Column]

NONE = (None, "", "nan", "NaT", "<NA>", "NA")


def _names_of(table: Any) -> list[Any] | None:
    """The columns of what is no dict."""
    named = getattr(getattr(table, "dtype", None), "names", None)
    if named:
        return list(named)
    for attribute in ("columns", "column_names"):
        names = getattr(table, attribute, None)
        if names is not None and not callable(names):
            listed = list(names)
            if all(isinstance(n, (str, int)) for n in listed):
                return listed
    return None


def _is_pandas(table: Any) -> bool:
    return hasattr(table, "columns") and hasattr(table, "iloc") and hasattr(table, "__getitem__")


def read(table: Any, who: str, wanted: Callable[[str], bool] | None = None) -> Table:
    """A table for the library.  wanted: is a column of that name used?  Of others only cheap ones are taken."""
    if isinstance(table, (str, os.PathLike)):
        return (os.fspath(table),)
    if isinstance(table, dict):
        given = [(str(name), values) for name, values in table.items()]
    else:
        names = _names_of(table)
        if hasattr(table, "__arrow_c_stream__") and not _is_pandas(table):
            _check_names([str(n) for n in names or ()], who)
            used = None if names is None or wanted is None else [str(n) for n in names if wanted(str(n))]
            return table.__arrow_c_stream__(), used or None
        if names is None or not hasattr(table, "__getitem__"):
            raise TypeError(f"{who}: a table is a path, a dict of columns, a data frame, an Arrow table or a structured array, not {type(table).__name__}")
        _check_names([str(n) for n in names], who)
        given = [(str(name), table[name]) for name in names]
    if not given:
        raise TypeError(f"{who}: the table has no columns")
    columns = []
    for name, values in given:
        if wanted is None or wanted(name) or _is_cheap(values):
            columns.append(_column(name, values, who))
    return columns or [_column(*given[0], who)]


def columns_of(table: Any, names: list[str], who: str) -> dict[str, Any]:
    """These columns as tensors of f64, missing cells as NaN; who names the caller in messages."""
    taken = read(table, who, lambda name: name in names)
    return _core._columns(taken, tuple(names))


def names_in(table: Table) -> list[str] | None:
    """The columns that are known before it is read."""
    if isinstance(table, list):
        return [name for name, _, _ in table]
    return list(table[1]) if len(table) == 2 and table[1] is not None else None


def _check_names(names: list[str], who: str) -> None:
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ValueError(f"{who}: two columns of the table have the same name, '{twice}'")


def _is_cheap(values: Any) -> bool:
    """Numbers in memory, which cost nothing to take."""
    return isinstance(values, Tensor) or getattr(getattr(values, "dtype", None), "kind", "O") in "fiub" and getattr(values, "ndim", 1) <= 2


def _column(name: str, values: Any, who: str) -> Column:
    """Numbers and dates as a tensor, words as a list with None for what is missing."""
    if hasattr(values, "_reference"):
        values = values.value
    if isinstance(values, Tensor):
        return name, "numbers", values.detach()
    if hasattr(values, "to_numpy"):
        values = _array(values)
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind == "M":
        return (name, *_dates(values))
    if kind in "fiub" and kind:
        return name, "numbers", _numbers(values)
    if kind and kind not in "OUST":
        raise TypeError(f"{who}: column '{name}' is of dtype {values.dtype}, which is neither numbers, dates nor words")
    if not kind:
        try:
            return name, "numbers", tensor(values)
        except (TypeError, ValueError, _core.Error):
            pass
    return (name, *_cells(name, list(values), who))


def _array(values: Any) -> Any:
    """A column of a data frame as an array, numbers with missing cells as f64 with NaN."""
    kind = str(getattr(getattr(values, "dtype", None), "kind", ""))
    if kind in "iufb" and kind and type(values.dtype).__module__.partition(".")[0] == "pandas":  # nullable: an array of objects otherwise
        return values.to_numpy(dtype="float64", na_value=float("nan"))
    try:
        return values.to_numpy()
    except (TypeError, ValueError):
        return values.to_numpy(zero_copy_only=False)  # of pyarrow


def _numbers(values: Any) -> Tensor:
    if getattr(values, "dtype", None) is not None and values.dtype.kind in "iu" and str(values.dtype) not in ("int32", "int64", "uint8") or str(
            values.dtype) in ("float128", "longdouble") or not getattr(values.dtype, "isnative", True):
        return tensor(values.astype("float64"))
    if any(s % values.itemsize for s in getattr(values, "strides", ())):
        values = values.copy()  # of a structured array
    try:
        return _core.asarray(values)
    except (TypeError, ValueError, _core.Error):
        return tensor(values)


def _dates(values: Any) -> tuple[str, Tensor]:
    """Dates as seconds since 1970: "days" if all are whole days, as in a file."""
    import numpy as np

    dates = np.asarray(values).astype("datetime64[us]")
    seconds = dates.astype("int64") / 1e6
    whole = not bool((seconds[~np.isnat(dates)] % 86400).any())
    seconds[np.isnat(dates)] = np.nan
    return "days" if whole else "dates", tensor(np.ascontiguousarray(seconds, dtype=np.float64))


def _missing(v: Any) -> bool:
    return v is None or v != v or type(v).__name__ in ("NAType", "NaTType")


def _cells(name: str, cells: list[Any], who: str) -> tuple[str, Any]:
    """Objects: numbers, dates, or texts, which are numbers or dates if all of them can be read as such."""
    import datetime

    filled = [v.decode() if isinstance(v, bytes) else v for v in cells if not _missing(v)]
    if all(isinstance(v, (int, float)) or hasattr(v, "__float__") and not isinstance(v, str) for v in filled):
        return "numbers", tensor([float("nan") if _missing(v) else float(v) for v in cells])
    if all(isinstance(v, datetime.date) for v in filled):
        import numpy as np

        return _dates(np.array([np.datetime64("NaT") if _missing(v) else np.datetime64(_utc(v), "us") for v in cells], dtype="datetime64[us]"))
    for v in filled:
        if not isinstance(v, str) and not hasattr(v, "__str__"):
            raise TypeError(f"{who}: column '{name}' has {type(v).__name__} beside words")
    return "words", [None if _missing(v) or v == "" else v.decode() if isinstance(v, bytes) else str(v) for v in cells]


def _utc(v: Any) -> Any:
    """A date or time without its zone, in UTC."""
    import datetime

    return v.astimezone(datetime.timezone.utc).replace(tzinfo=None) if getattr(v, "tzinfo", None) is not None else v


def as_read_from_text(columns: Table) -> Table:
    """Words that are all numbers, or all dates, become such, as in a file."""
    if not isinstance(columns, list):
        return columns
    return [(name, *_parsed(values)) if kind == "words" else (name, kind, values) for name, kind, values in columns]


def _parsed(words: Iterable[str | None]) -> tuple[str, Any]:
    import datetime

    cells = list(words)
    filled = [w for w in cells if w is not None and w not in NONE]
    if filled:
        try:
            return "numbers", tensor([float(w) if w is not None and w not in NONE else float("nan") for w in cells])
        except ValueError:
            pass
        try:
            _, dates = _cells("", [None if w is None or w in NONE else datetime.datetime.fromisoformat(w) for w in cells], "")
            return "days" if all(len(w) <= 10 for w in filled) else "dates", dates
        except ValueError:
            pass
    return "words", cells
