"""Tables of Python: dicts of columns, data frames, structured arrays."""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def columns_of(table: Any, names: list[str], who: str) -> dict[str, Any]:
    """These columns of a table, as arrays where it has such."""
    known = list(getattr(getattr(table, "dtype", None), "names", None) or getattr(table, "columns", None) or table)
    out = {}
    for name in names:
        if name not in known:
            raise KeyError(f"{who}: the table has no column '{name}': it has {', '.join(map(str, known))}")
        values = table[name]
        out[name] = values.to_numpy() if hasattr(values, "to_numpy") else values
    return out
