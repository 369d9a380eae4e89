"""Files in other encodings than UTF-8: which one it is, and a copy in UTF-8, since DuckDB reads nothing else."""

from __future__ import annotations

import codecs
import gzip
import re
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clnr.errors import DataError, did_you_mean, one_line, option

UTF_8, WINDOWS = "utf-8", "cp1252"
# Longer marks come first: that of UTF-32 begins as that of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# How much of the files of a table is looked at, and at a time; of each file at least that.
_SEEN_BYTES, _PART_BYTES = 1 << 25, 1 << 20
# Of text in UTF-16 without a mark, this share of all letters has a zero byte, always the first or always the second.
_ZERO_SHARE = 0.5
_NOT_WINDOWS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")
_LETTERS = re.compile(rb"[\x8a\x8c\x8e\x9a\x9c\x9e\x9f\xc0-\xd6\xd8-\xf6\xf8-\xff]+")
# Signs that stand in no word of Windows-1252; in other encodings these are letters.
_SIGN_IN_WORD = re.compile(rb"(?<=[A-Za-z])[\xa1-\xa9\xab-\xb3\xb5\xb6\xb8\xb9\xbb-\xbf](?=[A-Za-z])")
_MOST_LETTERS, _LIKELY_SHARE, _MOST_SIGNS_SHARE = 2, 2 / 3, 0.05


def line_at(content: bytes, place: int) -> str:
    """The line of a byte, for an error; lines end as in any system."""
    return f"line {len((content[:place] + b'.').splitlines()):,}"


def _words(encoding: str) -> str:
    """An encoding as people call it."""
    return "Windows-1252" if encoding == WINDOWS else encoding.upper()


def not_utf_8() -> str:
    """What to say of a file of unknown encoding."""
    return f"it is not UTF-8 text; set its encoding, such as {option('encoding', WINDOWS)}"


def check_encoding(name: str) -> None:
    """Raise unless it is an encoding of text that Python knows."""
    try:
        "".encode(name)
    except (LookupError, ValueError, UnicodeError):
        known = (UTF_8, "utf-16", WINDOWS, "latin-1", "cp1250", "cp1251", "shift_jis", "gb18030", "big5", "euc_kr")
        near = did_you_mean(name, known)
        raise DataError(f"{option('encoding')}: unknown '{one_line(name, 80)}'; {near}such as {', '.join(known)}") from None


def open_bytes(path: Path) -> Any:
    """A file, unpacked if its name says that it is packed."""
    suffix = path.suffix.lower()
    if suffix == ".zst":
        import pyarrow as pa

        return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
    return gzip.open(path, "rb") if suffix == ".gz" else path.open("rb")


def unpacked(name: str) -> str:
    """The name of a file without the ending of what it is packed with."""
    return re.sub(r"(?i)\.(gz|zst)$", "", name)


def find_encoding(path: Path, seen_bytes: int) -> str:
    """That of a mark at its beginning; else UTF-8, unless its bytes are hardly that and likely UTF-16 or Windows-1252."""
    with reading(path), open_bytes(path) as file:
        part = file.read(_PART_BYTES)
        for mark, name in _MARKS.items():
            if part.startswith(mark):
                return name
        if (unmarked := _utf_16(part)) is not None:
            return unmarked
        decoder = codecs.getincrementaldecoder(UTF_8)()
        for _ in range(max(1, seen_bytes // _PART_BYTES)):
            following, begun = file.read(_PART_BYTES), decoder.getstate()[0]
            try:
                # That a part is ASCII alone takes hardly any time to find out.
                if not part.isascii() or begun:
                    decoder.decode(part, final=not following)
            except UnicodeDecodeError:
                return WINDOWS if _is_windows(begun + part) else UTF_8
            if not following:
                break
            part = following
        return UTF_8


def _utf_16(part: bytes) -> str | None:
    """Which UTF-16 it is, by the zero bytes of its ASCII letters."""
    zeros = part[::2].count(0), part[1::2].count(0)
    if all(zeros) or max(zeros) < max(1, _ZERO_SHARE * (len(part) // 2)):
        return None
    return "utf-16-be" if zeros[0] else "utf-16-le"


def _is_windows(part: bytes) -> bool:
    """Whether bytes that are no UTF-8 look like Windows-1252: other letters stand alone or in pairs, mostly in ASCII words.

    Those of Russian or Japanese do not; nor do those of a damaged file in UTF-8, most of whose other letters are right.
    """
    if _NOT_WINDOWS.search(part):
        return False
    right = sum(ord(letter) > 127 for letter in part.decode(UTF_8, "ignore"))
    if right >= part.decode(UTF_8, "replace").count("\ufffd"):
        return False
    runs = list(_LETTERS.finditer(part))
    likely = sum(len(run[0]) <= _MOST_LETTERS and _in_word(part, run.start(), run.end()) for run in runs)
    signs = len(_SIGN_IN_WORD.findall(part))
    return likely >= _LIKELY_SHARE * len(runs) and signs <= _MOST_SIGNS_SHARE * (len(runs) + signs)


def _in_word(part: bytes, first: int, last: int) -> bool:
    return part[max(0, first - 1) : first].isalpha() or part[last : last + 1].isalpha()


@contextmanager
def in_utf_8(files: Sequence[str], encoding: str | None, folder: Path) -> Iterator[tuple[list[str], str]]:
    """Files as DuckDB can read them: if one is in another encoding, copies of all in a folder, which is removed at the end.

    Beside them is the encoding that was found, in words; "" if it was given or is UTF-8. Errors name the files themselves.
    Each copy has a folder of its own, and the name of its file, without the ending of what it was packed with.
    """
    given = None if encoding is None else codecs.lookup(encoding).name
    encodings = [given or find_encoding(Path(file), _SEEN_BYTES // len(files)) for file in files]
    found = next((_words(each) for each in encodings if given is None and each != UTF_8), "")
    copies = list(files)
    try:
        for number, (file, each) in enumerate(zip(files, encodings, strict=True) if set(encodings) != {UTF_8} else ()):
            place = folder / f"{number:09}"
            place.mkdir(parents=True)
            copies[number] = str(place / unpacked(Path(file).name))
            _copy(Path(file), each, Path(copies[number]))
        yield copies, found
    except DataError as error:
        message = str(error)
        for copy, file in zip(copies, files, strict=True):
            message = message.replace(copy, file)
        raise DataError(message) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(path: Path, encoding: str, copy: Path) -> None:
    decoder, lines = codecs.getincrementaldecoder(encoding)(), 1
    with reading(path), open_bytes(path) as file, copy.open("wb") as out:
        try:
            while part := file.read(_PART_BYTES):
                text = decoder.decode(part)
                lines += text.count("\n")
                out.write(text.encode())
            out.write(decoder.decode(b"", final=True).encode())
        except UnicodeDecodeError as error:
            lines += error.object[: error.start].decode(encoding, "ignore").count("\n")
            message = f"it is not text in {_words(encoding)}; set its encoding: {option('encoding')}"
            raise DataError(f"{path}: line {lines:,}: {message}") from None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of a file that cannot be read, or unpacked, are one line."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: it cannot be read: {getattr(error, 'strerror', None) or error}") from None
