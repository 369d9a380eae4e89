"""Lists and arrays of edges, as users write them down: pairs of ids, triples with weights, PyG's ``edge_index``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clnr.errors import DataError
from clnr.graph.arrays import as_array, is_tensor
from clnr.support.humanize import describe_error

_COLUMNS = ("source", "target", "weight")
# Sizes of arrays whose rows and whose columns may be edges.
_AMBIGUOUS = ((2, 2), (2, 3), (3, 3))
_EXACT = 2.0**53


def is_array(given: Any) -> bool:
    return isinstance(given, np.ndarray) or is_tensor(given)


def edge_columns(given: Any) -> list[Any] | None:
    """Sources, targets and, of triples, weights; None if it is neither a list of edges nor an array of such a shape."""
    if is_array(given):
        rows: Any = as_array(given, "edges")
        shape, tuples = rows.shape, False
    elif isinstance(given, list | tuple) and given and all(_is_row(row, given[0]) for row in given):
        rows, shape, tuples = given, (len(given), len(given[0])), isinstance(given[0], tuple)
    else:
        return None
    if shape in _AMBIGUOUS and not tuples:
        raise DataError(
            f"{shape[0]} x {shape[1]}: edges may be rows or columns, so it is no graph; give a list of tuples, one an edge"
        )
    if len(shape) == 2 and shape[1] in (2, 3):
        columns: list[Any] = list(rows.T) if is_array(given) else list(zip(*rows, strict=True))
    elif len(shape) == 2 and shape[0] == 2:
        columns = list(rows)
    else:
        return None
    return [*(_whole(column) for column in columns[:2]), *columns[2:]]


def edge_table(columns: Sequence[Any]) -> Any:
    """An Arrow table of what ``edge_columns`` gives."""
    import pyarrow as pa

    try:
        return pa.table({name: pa.array(column) for name, column in zip(_COLUMNS, columns, strict=False)})
    except (pa.ArrowException, OverflowError) as error:
        raise DataError(f"edges must have ids of one type, whole numbers or text: {describe_error(error)}") from None


def _is_row(row: Any, first: Any) -> bool:
    """Whether it holds single values, as many as the first one, and at least two."""
    return isinstance(row, list | tuple) and len(row) == len(first) >= 2 and all(map(np.isscalar, row))


def _whole(column: Any) -> Any:
    """Whole numbers as such, also where weights beside them have made floats of them; other ids are read as in a table."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        wide = column.astype(np.float64)
        # Beyond 2^53 a float no longer tells one integer from the next.
        if ((wide == np.floor(wide)) & (np.abs(wide) <= _EXACT)).all():
            return column.astype(np.int64)
    return column
