"""Ids of nodes that are texts in a graph folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.storage import errors_name

if TYPE_CHECKING:
    import pyarrow


class StoredIds:
    """Texts in one piece, and where each begins: as an array of objects, read when they are asked for."""

    dtype: ClassVar[np.dtype[Any]] = np.dtype(object)

    def __init__(self, offsets: Array, text: Array, folder: Path):
        self._offsets, self._text, self._folder = offsets, text, folder

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    def part(self, start: int, stop: int) -> pyarrow.Array:
        """The ids of a range of nodes, checked."""
        import pyarrow as pa

        offsets = self._offsets[start : stop + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        if not (0 <= first <= last <= len(self._text) and (np.diff(offsets) >= 0).all()):
            raise DataError(f"{self._folder / 'ids.offsets.bin'}: it is damaged, or was changed: its numbers are not in order")
        buffers = [None, pa.py_buffer(offsets - first), pa.py_buffer(self._text[first:last].tobytes())]
        ids = pa.Array.from_buffers(pa.large_string(), stop - start, buffers)
        with errors_name(self._folder / "ids.text.bin"):
            ids.validate(full=True)
        return ids

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(len(self))
            return self.part(start, max(start, stop)).to_numpy(zero_copy_only=False)
        rows = np.arange(len(self))[index] if isinstance(index, slice) else np.asarray(index)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        starts, ends = self._offsets[rows].reshape(-1), self._offsets[rows + 1].reshape(-1)
        if not ((starts >= 0) & (starts <= ends) & (ends <= len(self._text))).all():
            raise DataError(f"{self._folder / 'ids.offsets.bin'}: it is damaged, or was changed: its numbers are not in order")
        ids = np.empty(rows.size, object)
        with errors_name(self._folder / "ids.text.bin"):
            for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                ids[i] = self._text[start:end].tobytes().decode()
        return ids.reshape(rows.shape) if rows.ndim else ids[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def tolist(self) -> list[str]:
        return self[:].tolist()
