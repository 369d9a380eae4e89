"""A folder that is replaced while it is read is read as it was, or as it is."""

from __future__ import annotations

import shutil

import pytest

from clnr.errors import DataError
from clnr.support.storage.checked_files import read_stable


def write(folder, text):
    folder.mkdir()
    for name in "ab":
        (folder / name).write_text(text)


def replace(folder, text):
    shutil.rmtree(folder)
    write(folder, text)


def both(folder, between):
    """What two files say, with something done after the first was read; they must agree."""
    said = (folder / "a").read_text()
    between()
    if said != (folder / "b").read_text():
        raise DataError("the files do not agree")
    return said


@pytest.mark.parametrize("fails", [True, False])
def test_a_folder_replaced_meanwhile_is_read_anew(tmp_path, fails):
    write(tmp_path / "one", "old")
    others = ["new"] if fails else ["old"]
    read = []

    def between():
        read.append(1)
        if others:
            replace(tmp_path / "one", others.pop())

    said = read_stable(tmp_path / "one", "b", lambda: both(tmp_path / "one", between))
    assert said == ("new" if fails else "old")
    assert len(read) == 2


def test_what_is_wrong_with_a_folder_that_stays_is_said_at_once(tmp_path):
    write(tmp_path / "one", "old")
    (tmp_path / "one" / "b").write_text("other")
    read = []
    with pytest.raises(DataError, match="the files do not agree"):
        read_stable(tmp_path / "one", "b", lambda: both(tmp_path / "one", lambda: read.append(1)))
    assert len(read) == 1
    with pytest.raises(DataError, match="another process keeps rewriting it"):
        read_stable(tmp_path / "one", "b", lambda: both(tmp_path / "one", lambda: replace(tmp_path / "one", "new")))


def test_a_folder_that_is_renamed_twice_is_waited_for(tmp_path):
    write(tmp_path / ".one.clnr.old", "old")
    write(tmp_path / "new", "new")
    tries = []

    def read():
        tries.append(1)
        if len(tries) == 3:
            (tmp_path / "new").rename(tmp_path / "one")
        if not (tmp_path / "one").is_dir():
            raise DataError("there is no such folder")
        return (tmp_path / "one" / "a").read_text()

    assert read_stable(tmp_path / "one", "b", read) == "new"
    assert len(tries) == 4
