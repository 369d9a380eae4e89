"""Arrays from whatever users pass: NumPy arrays, tensors, lists, data frame columns."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.humanize import describe_error

INTEGER_KINDS = "iu"  # Kinds of NumPy types.


def is_tensor(values: Any) -> bool:
    """Whether it is a tensor of torch, which is not imported for this: whoever made a tensor has imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def to_host(values: Any) -> Any:
    """A tensor on any device as a NumPy array; anything else unchanged."""
    return values.detach().cpu().numpy() if is_tensor(values) else values


def as_array(values: Any, what: str) -> Array:
    """Any array-like value as a NumPy array, without a copy where possible."""
    try:
        return np.asarray(to_host(values))
    except Exception as error:  # A foreign object's own conversion may raise anything.
        raise DataError(f"{what} cannot be read as an array: {describe_error(error)}") from None


def as_float32(values: Any, what: str) -> Array:
    """A float32 copy; numbers beyond its range become infinite."""
    return _cast(as_array(values, what), np.float32, what)


def as_int64(values: Any, what: str) -> Array:
    """An int64 copy; a fraction or NaN is an error, never truncated."""
    array = as_array(values, what)
    if array.size and array.dtype.kind not in INTEGER_KINDS:
        array = _cast(array, np.float64, what)
        odd = array[~(np.abs(array) < 2**63) | (array != np.floor(array))]
        if odd.size:
            raise DataError(f"{what} must be whole numbers, not such as {odd[0]}")
    if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        raise DataError(f"{what} must be whole numbers below 2^63, not such as {array.max()}")
    return array.astype(np.int64)


def _cast(array: Array, dtype: type, what: str) -> Array:
    if array.dtype.kind in "cmMV":
        raise DataError(f"{what} must be numbers, not {array.dtype}")
    try:
        with np.errstate(over="ignore"):
            return array.astype(dtype, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{what} must be numbers: {describe_error(error)}") from None
