"""Files with whatever wrong in them: reading gives a graph or a DataError, and never a crash, a hang or anything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clnr.datasets import formats
from tests.damage import EXTREME, damaged, fuzzed
from tests.datasets import made

pytestmark = pytest.mark.fuzz


@pytest.fixture(scope="module")
def holds(tmp_path_factory, apart):
    """Writes files by name into one folder, reads them in a process apart, and holds the reader to its word."""
    folder = tmp_path_factory.mktemp("fuzz")

    def check(reader: str, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        said = apart("tests.datasets.made:read_files", reader, [str(folder / name) for name in files])
        assert said == "done" or (said.startswith("DataError: ") and str(folder) in said and said.isprintable()), said

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


@pytest.mark.parametrize("form", ["planetoid", "npz", "ogb zip", "ogb folder"])
def test_changed_bytes(holds, whole, form):
    reader, files = whole[form]

    @fuzzed(20)
    @given(st.data())
    def check(data):
        name = data.draw(st.sampled_from(sorted(files)))
        holds(reader, files | {name: data.draw(damaged(files[name]))})

    holds(reader, files)
    check()


# -- pickles of any instructions ---------------------------------------------------------------------------------------

ALLOWED = sorted(formats._Unpickler._ALLOWED)
INSTRUCTION = st.one_of(
    st.sampled_from(ALLOWED).map(lambda name: f"c{name[0]}\n{name[1]}\n".encode()),
    st.sampled_from(ALLOWED).map(lambda name: f"c{name[0]}\n{name[1]}\n".encode() + b")R"),
    st.sampled_from([*EXTREME, 2, 5, 100_000, 2**63 - 1]).map(made.integer),
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

    @fuzzed(20)
    @given(st.sampled_from(made.PARTS[:-1]), st.lists(INSTRUCTION, max_size=25))
    def check(part, instructions):
        holds(reader, files | {f"ind.small.{part}": made.pickled(b"".join(instructions))})

    check()
