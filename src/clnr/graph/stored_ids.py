"""Ids of nodes that are texts in a graph folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array, check_ends
from clnr.support.storage import errors_name

if TYPE_CHECKING:
    import pyarrow


class StoredIds:
    """Texts in one piece, and where each begins: as an array of objects, read when they are asked for."""

    dtype: ClassVar[np.dtype[Any]] = np.dtype(object)

    def __init__(self, offsets: Array, text: Array, folder: Path):
        self._offsets, self._text, self._folder = offsets, text, folder
        check_ends(offsets, len(text), self._damaged)

    def _damaged(self, part: str, what: str) -> DataError:
        return DataError(f"{self._folder / 'ids.offsets.bin'}: it is damaged, or was changed: {what}")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def take(self, rows: Array) -> pyarrow.Array:
        """The ids of some nodes as Arrow text, checked."""
        import pyarrow as pa

        starts, ends = self._offsets[rows], self._offsets[rows + 1]
        if not ((starts >= 0) & (starts <= ends) & (ends <= len(self._text))).all():
            raise self._damaged("indptr", "its numbers are not in order")
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._text)]
        ids = pa.Array.from_buffers(pa.large_string(), len(self), buffers).take(pa.array(rows))
        with errors_name(self._folder / "ids.text.bin"):
            ids.validate(full=True)
        return ids

    def __getitem__(self, index: Any) -> Any:
        rows = np.arange(*index.indices(len(self))) if isinstance(index, slice) else np.asarray(index)
        ids = self.take(rows.reshape(-1)).to_numpy(zero_copy_only=False)
        return ids.reshape(rows.shape) if rows.ndim else ids[0]

    def tolist(self) -> list[str]:
        return self[:].tolist()
