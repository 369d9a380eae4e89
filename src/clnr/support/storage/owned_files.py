"""Folders that clnr writes: which files in them are its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clnr.errors import ClnrError


@dataclass(frozen=True)
class OwnedFiles:
    """Which files clnr writes to a folder, so that no other file is ever overwritten or removed.

    Attributes:
        names: The name of every file that may be in such a folder.
        recognizes: Whether a folder's content shows that clnr wrote it.
        shards: The name of a folder that may be in it, and the pattern of the files in that; empty if there is none.
    """

    names: frozenset[str]
    recognizes: Callable[[Path], bool]
    shards: tuple[str, str] = ("", "")

    def find_foreign(self, folder: Path) -> str | None:
        """The name of the first file in a folder that clnr did not write, or None."""
        entries = sorted(folder.iterdir())
        recognized = not entries or self.recognizes(folder)
        for each in entries:
            if self._is_shards(each):
                others = sorted(path.name for path in each.iterdir() if not path.match(self.shards[1]))
                if others:
                    return f"{each.name}/{others[0]}"
            elif each.name not in self.names or not recognized:
                return each.name
        return None

    def _is_shards(self, path: Path) -> bool:
        return path.name == self.shards[0] and path.is_dir() and not path.is_symlink()

    def remove(self, folder: Path) -> None:
        """Remove a folder and clnr's files in it; other files stay, and are an error."""
        for path in folder.iterdir():
            if self._is_shards(path):
                for shard in path.glob(self.shards[1]):
                    shard.unlink()
                with contextlib.suppress(OSError):
                    path.rmdir()
            elif path.name in self.names:
                path.unlink()
        try:
            folder.rmdir()
        except OSError:
            left = sorted(path.name for path in folder.iterdir())
            if not left:
                raise
            raise ClnrError(f"{folder} holds '{left[0]}', which clnr did not write; move it elsewhere") from None
