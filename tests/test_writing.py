from __future__ import annotations

import os

import pytest

from clnr.errors import ClnrError
from clnr.writing import check_folder, whole_folder, write_whole


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = write_whole(tmp_path / "a.md", b"first")
    monkeypatch.setattr("pathlib.Path.replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"second")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"first"]


def test_a_folder_appears_whole(tmp_path):
    with whole_folder(tmp_path / "new") as part:
        (part / "a").write_text("1")
        assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new" / "a").read_text() == "1"


def test_a_folder_takes_the_place_of_another(tmp_path):
    with whole_folder(tmp_path / "new") as part:
        (part / "a").write_text("1")
    with whole_folder(tmp_path / "new") as part:
        (part / "b").write_text("2")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_on_an_error_the_old_folder_stays_and_nothing_else(tmp_path, error):
    with whole_folder(tmp_path / "new") as part:
        (part / "a").write_text("1")

    def broken():
        with whole_folder(tmp_path / "new") as part:
            (part / "b").write_text("2")
            raise error

    with pytest.raises(type(error)):
        broken()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a"]


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    full = tmp_path / "full"
    full.mkdir()
    check_folder(full, force=False)
    check_folder(tmp_path / "new" / "deeper", force=False)
    (full / "a").write_text("")
    check_folder(full, force=True)
    for path, said in ((tmp_path / "file", "is a file"), (full, "--force"), (tmp_path / "file" / "below", "cannot be")):
        with pytest.raises(ClnrError, match=said):
            check_folder(path, force=False)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ClnrError, match="cannot be written to"):
        check_folder(tmp_path / "new", force=False)
    tmp_path.chmod(0o700)
