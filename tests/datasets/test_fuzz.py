"""Files with whatever wrong in them: reading gives a graph or a DataError, and never a crash, a hang or anything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clnr.datasets import formats
from tests.datasets import made
from tests.fuzz import examples

pytestmark = pytest.mark.fuzz
fuzzed = settings(
    derandomize=True, deadline=None, max_examples=examples(20), suppress_health_check=list(HealthCheck), print_blob=False
)


@pytest.fixture(scope="module")
def holds(tmp_path_factory, apart):
    """Writes files by name into one folder, reads them in a process apart, and holds the reader to its word."""
    folder = tmp_path_factory.mktemp("fuzz")

    def check(reader: str, files: dict[str, bytes], sound: bool = True) -> None:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        said = apart("tests.datasets.made:read_files", reader, [str(folder / name) for name in files])
        refused = said.startswith("DataError: ") and str(folder) in said and said.isprintable()
        assert refused or (sound and said == "done"), said

    return check


def contents(folder: Path, files: list[Path]) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of each form, undamaged: reader and contents."""
    folder = tmp_path_factory.mktemp("whole")
    return {
        "planetoid": ("planetoid", contents(folder, made.planetoid_files(folder, made.WITH_GAPS))),
        "npz": ("npz", contents(folder, [made.npz_file(folder)])),
        "ogb zip": ("ogb", contents(folder, made.ogb_zip(folder))),
        "ogb folder": ("ogb", contents(folder, made.ogb_folder(folder))),
    }


# -- bytes -------------------------------------------------------------------------------------------------------------

SPOT = st.floats(0, 1, exclude_max=True)  # Of a file, as a share of its length.
CHANGES = st.one_of(
    st.tuples(st.just("flip"), SPOT, st.integers(1, 255)),
    st.tuples(st.just("cut"), SPOT, st.just(0)),
    st.tuples(st.just("remove"), SPOT, st.integers(1, 64)),
    st.tuples(st.just("repeat"), SPOT, st.integers(1, 64)),
    st.tuples(st.just("insert"), SPOT, st.binary(max_size=16)),
)


def changed(content: bytes, change) -> bytes:
    how, spot, more = change
    i = int(spot * len(content))
    match how:
        case "flip":
            return content[:i] + bytes(byte ^ more for byte in content[i : i + 1]) + content[i + 1 :]
        case "cut":
            return content[:i]
        case "remove":
            return content[:i] + content[i + more :]
        case "repeat":
            return content[: i + more] + content[i:]
        case _:
            return content[:i] + more + content[i:]


@pytest.mark.parametrize("form", ["planetoid", "npz", "ogb zip", "ogb folder"])
def test_changed_bytes(holds, whole, form):
    reader, files = whole[form]

    @fuzzed
    @given(st.sampled_from(sorted(files)), st.lists(CHANGES, min_size=1, max_size=3))
    def check(name, changes):
        content = files[name]
        for change in changes:
            content = changed(content, change)
        holds(reader, files | {name: content})

    holds(reader, files)
    check()


# -- arrays ------------------------------------------------------------------------------------------------------------

ODD = st.sampled_from([-(2**63), -(2**31), -7, -1, 0, 1, 2, 5, 100_000, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1])


# -- pickles of any instructions ---------------------------------------------------------------------------------------

ALLOWED = sorted(formats._Unpickler._ALLOWED)
INSTRUCTION = st.one_of(
    st.sampled_from(ALLOWED).map(lambda name: f"c{name[0]}\n{name[1]}\n".encode()),
    st.sampled_from(ALLOWED).map(lambda name: f"c{name[0]}\n{name[1]}\n".encode() + b")R"),
    ODD.map(made.integer),
    st.sampled_from(["data", "indices", "indptr", "_shape", "i4", "f8", "<", "O8", "V9999999"]).map(made.text),
    st.binary(max_size=12).map(made.raw),
    st.sampled_from([0, 1, 200, 2**24, 2**32 - 1]).map(lambda place: b"r" + place.to_bytes(4, "little")),
    st.integers(0, 3).map(lambda place: b"q" + bytes([place])),
    st.integers(0, 3).map(lambda place: b"h" + bytes([place])),
    st.sampled_from([made.python2(np.arange(4, dtype="<i4")), made.dtype("f4"), made.python2({0: [1]})]),
    # MARK, TUPLE and kin, lists, dictionaries, REDUCE, BUILD, NEWOBJ, DUP, POP, OBJ.
    st.sampled_from([bytes([code]) for code in b"(t)]}esuaRb\x8120\x85\x86\x87Nlod\x88\x89"]),
)


def test_pickles_of_any_instructions(holds, whole):
    reader, files = whole["planetoid"]

    @fuzzed
    @given(st.sampled_from(made.PARTS[:-1]), st.lists(INSTRUCTION, max_size=25))
    def check(part, instructions):
        holds(reader, files | {f"ind.small.{part}": made.pickled(b"".join(instructions))})

    check()
