from __future__ import annotations

import os
import subprocess
import sys

import pytest

from clnr.errors import ClnrError
from clnr.writing import check_folder, whole_folder, write_whole

OURS = {"a", "b"}


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

    with pytest.raises(ClnrError if isinstance(error, OSError) else KeyboardInterrupt):
        broken()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a"]


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    full = tmp_path / "full"
    full.mkdir()
    check_folder(full, False, OURS)
    check_folder(tmp_path / "new" / "deeper", False, OURS)
    (full / "a").write_text("")
    check_folder(full, True, OURS)
    for path, said in ((tmp_path / "file", "is a file"), (full, "--force"), (tmp_path / "file" / "below", "cannot be")):
        with pytest.raises(ClnrError, match=said):
            check_folder(path, False, OURS)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "full"}


def test_what_did_not_come_from_here_is_never_overwritten(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ClnrError, match=r"holds 'thesis\.tex', which did not come from here"):
        check_folder(tmp_path, True, OURS)
    (tmp_path / "thesis.tex").unlink()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClnrError, match="while one is in it"):
        check_folder(tmp_path, True, OURS)


def test_a_link_to_a_folder_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with whole_folder(tmp_path / "link") as part:
        (part / "a").write_text("1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").read_text() == "1"
    assert {path.name for path in tmp_path.iterdir()} == {"real", "link"}


def test_what_a_killed_process_left_is_cleared(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    dead, mine = (tmp_path / f".new.{number}.part" for number in (int(ended.stdout), os.getppid()))
    for left in (dead, mine):
        left.mkdir()
        (left / "a").write_text("1")
    with whole_folder(tmp_path / "new"):
        pass
    assert not dead.exists()
    assert mine.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ClnrError, match="cannot be made"):
        check_folder(tmp_path / "new", False, OURS)
    tmp_path.chmod(0o700)
