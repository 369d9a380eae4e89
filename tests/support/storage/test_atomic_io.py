from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clnr.errors import ClnrError
from clnr.support.storage import atomic_io
from clnr.support.storage.atomic_io import (
    OwnFiles,
    atomic_folder,
    check_folder,
    file_lock,
    move_folder,
    remove_leftovers,
    reserve_folder,
    write_atomic,
)
from tests.command_line import this_python
from tests.kills import Killed, killed

OWN_FILES = OwnFiles(("a", "b", "c", "below", "below/part-*"), lambda folder: True)


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path, force=False, ours=OWN_FILES, **files):
    with reserve_folder(path, ours):
        check_folder(path, force, ours)
        with atomic_folder(path, force, ours) as part:
            for name, text in files.items():
                (part / name).write_text(text)


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}


def cannot(*_):
    """A system, or a file system, that cannot exchange two folders."""
    return False


EXCHANGES = pytest.mark.parametrize("exchange", [None, cannot], ids=["exchanged", "renamed twice"])


# -- files ------------------------------------------------------------------------------------------------------------------


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = write_atomic(tmp_path / "a.md", b"first")
    monkeypatch.setattr("pathlib.Path.replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"second")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"first"]


@pytest.mark.parametrize("clear", [remove_leftovers, lambda path: write_atomic(path, b"third")], ids=["removed", "rewritten"])
def test_a_file_outlasts_a_kill_at_any_moment(clear, tmp_path, monkeypatch):
    for at in itertools.count():
        path = tmp_path / str(at) / "file"
        write_atomic(path, b"first")
        try:
            with killed(monkeypatch, at) as passed:
                write_atomic(path, b"second")
        except Killed:
            assert path.read_bytes() in (b"first", b"second")
            clear(path)
            assert there(path.parent) == ["file"]
        else:
            break
    assert {"fsync", "replace", "unlink"} <= set(passed)
    assert path.read_bytes() == b"second"


# -- folders ----------------------------------------------------------------------------------------------------------------


@EXCHANGES
def test_a_folder_appears_whole_and_takes_the_place_of_another(exchange, tmp_path, monkeypatch):
    if exchange is not None:
        monkeypatch.setattr(atomic_io, "_exchange", exchange)
    new = tmp_path / "new"
    with reserve_folder(new, OWN_FILES), atomic_folder(new, False, OWN_FILES) as part:
        (part / "a").write_text("1")
        assert not new.exists()
    write(new, force=True, b="2")
    assert content(new) == {"b": "2"}
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "c").write_text("3")
    with reserve_folder(new, OWN_FILES):
        move_folder(tmp_path / "made", new, True, OWN_FILES)
    assert content(new) == {"c": "3"}
    assert there(tmp_path) == ["new"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_on_an_error_the_old_folder_stays_and_nothing_else(tmp_path, error):
    write(tmp_path / "new", a="1")

    def broken():
        with reserve_folder(tmp_path / "new", OWN_FILES), atomic_folder(tmp_path / "new", True, OWN_FILES) as part:
            (part / "b").write_text("2")
            raise error

    with pytest.raises(ClnrError if isinstance(error, OSError) else KeyboardInterrupt):
        broken()
    assert there(tmp_path) == ["new"]
    assert content(tmp_path / "new") == {"a": "1"}


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    full = tmp_path / "full"
    full.mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    check_folder(full, False, OWN_FILES)
    (full / "a").write_text("")
    check_folder(full, True, OWN_FILES)
    for path, said in (
        (tmp_path / "file", "is a file"),
        (full, "force=True"),
        (tmp_path / "file" / "below", "cannot be"),
        (tmp_path / "loop", "cannot be"),
        (tmp_path / "loop" / "below", "cannot be"),
        (tmp_path / ("long" * 100), "cannot be"),
        (tmp_path / "a\0b", "cannot be"),
        (tmp_path / ("ä" * 120), "a name of 240 bytes is too long; choose one of at most 233"),
        (Path("/"), "is the root of a file system"),
    ):
        with pytest.raises(ClnrError, match=said):
            write(path, a="1")
    assert there(tmp_path) == ["file", "full", "loop"]


def test_folders_above_are_made_and_go_again_if_nothing_comes_of_it(tmp_path):
    deep = tmp_path / "some" / "where"
    with reserve_folder(deep / "new", OWN_FILES):
        assert there(deep) == [".new.clnr.lock"]
    assert there(tmp_path) == []
    write(deep / "new", a="1")
    assert content(deep / "new") == {"a": "1"}


def test_what_did_not_come_from_here_is_never_overwritten(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ClnrError, match=r"holds 'thesis\.tex', which this command did not write"):
        check_folder(tmp_path, True, OWN_FILES)
    (tmp_path / "thesis.tex").unlink()
    # By name it could be ours, by content it is not.
    with pytest.raises(ClnrError, match="holds 'a', which this command did not write"):
        check_folder(tmp_path, True, OwnFiles(OWN_FILES.patterns, lambda folder: False))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClnrError, match="is the working directory or above it"):
        check_folder(tmp_path, True, OWN_FILES)


@pytest.mark.parametrize(("force", "name"), [(False, "notes.txt"), (True, "notes.txt"), (False, "a")])
def test_what_comes_while_the_folder_is_written_is_not_lost_nor_is_the_folder(force, name, tmp_path):
    new = tmp_path / "new"
    if force:
        write(new, a="old")
    (tmp_path / "new-2").mkdir()

    def work():
        with reserve_folder(new, OWN_FILES):
            check_folder(new, force, OWN_FILES)
            with atomic_folder(new, force, OWN_FILES) as part:
                (part / "b").write_text("result")
                new.mkdir(exist_ok=True)
                (new / name).write_text("dear")

    with pytest.raises(ClnrError, match=rf"new (holds|exists).* the new folder is kept as {tmp_path}/new-3"):
        work()
    assert content(new) == ({"a": "old"} if force else {}) | {name: "dear"}
    assert content(tmp_path / "new-3") == {"b": "result"}
    assert there(tmp_path) == ["new", "new-2", "new-3"]


def test_only_what_is_ours_is_removed(tmp_path):
    folder, elsewhere = tmp_path / "left", tmp_path / "elsewhere"
    for name in ("a", "below/part-1", "below/notes.txt", "below/a"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    elsewhere.mkdir()
    (elsewhere / "part-1").write_text("dear")
    assert OWN_FILES.find_foreign(folder) == "below/a"
    with pytest.raises(ClnrError, match="holds 'below'"):
        OWN_FILES.remove(folder)
    assert sorted(path.name for path in folder.rglob("*")) == ["a", "below", "notes.txt"]
    (folder / "below" / "a").unlink()
    (folder / "below" / "notes.txt").unlink()
    (folder / "below").rmdir()
    (folder / "below").symlink_to(elsewhere)
    OWN_FILES.remove(folder)
    assert not folder.exists()
    assert content(elsewhere) == {"part-1": "dear"}


def test_a_link_to_a_folder_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", a="1")
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "real") == {"a": "1"}
    assert there(tmp_path) == ["link", "real"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ClnrError, match="cannot be created"):
        write(tmp_path / "new", a="1")
    tmp_path.chmod(0o700)


# -- kills ------------------------------------------------------------------------------------------------------------------


@EXCHANGES
@pytest.mark.parametrize("before", [{"a": "old"}, {}], ids=["over another", "afresh"])
@pytest.mark.parametrize("next_one", ["looks", "writes"])
def test_a_folder_outlasts_a_kill_at_any_moment(next_one, before, exchange, tmp_path, monkeypatch):
    after = {"b": "new", "c": "new"}
    for at in itertools.count():
        here = tmp_path / str(at)
        if before:
            write(here / "new", **before)
        try:
            with killed(monkeypatch, at, exchange) as passed:
                write(here / "new", force=True, **after)
        except Killed:
            if exchange is None:
                assert content(here / "new") in (before, after), passed
            if next_one == "looks":
                with reserve_folder(here / "new", OWN_FILES):
                    assert content(here / "new") in (before, after), passed
                assert not here.exists() or there(here) in (["new"], [])
            else:
                write(here / "new", force=True, a="newer")
                assert content(here / "new") == {"a": "newer"}
                assert there(here) == ["new"]
        else:
            break
    assert {"fsync", "mkdir", "rename" if exchange or not before else "exchange"} <= set(passed)
    assert content(here / "new") == after


# -- locks ------------------------------------------------------------------------------------------------------------------


def test_a_second_one_is_refused_at_once(tmp_path):
    with reserve_folder(tmp_path / "new", OWN_FILES), pytest.raises(ClnrError, match="being written by another process"):
        write(tmp_path / "new", a="1")
    write(tmp_path / "new", a="1")
    assert there(tmp_path) == ["new"]


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_free(tmp_path):
    script = (
        "import os, signal, sys, pathlib; from clnr.support.storage.atomic_io import file_lock\n"
        "with file_lock(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "new"],
        env=this_python(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline().strip() == b"held"
        with pytest.raises(ClnrError, match="another process"), file_lock(tmp_path / "new"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert there(tmp_path) == [".new.clnr.lock"]
    write(tmp_path / "new", a="1")
    assert there(tmp_path) == ["new"]


def test_a_lock_that_was_removed_meanwhile_is_the_lock_of_nothing(tmp_path, monkeypatch):
    """Another process lets go, and removes the file, after this one has opened it."""
    real, times = atomic_io._lock, []

    def slow(file, wait):
        times.append(file)
        if len(times) == 1:
            (tmp_path / ".new.clnr.lock").unlink()
        return real(file, wait)

    monkeypatch.setattr(atomic_io, "_lock", slow)
    with file_lock(tmp_path / "new"):
        assert len(times) == 2
        with pytest.raises(ClnrError), file_lock(tmp_path / "new"):
            pass
    assert there(tmp_path) == []


def test_without_locks_it_works_all_the_same(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unknown(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    write(tmp_path / "new", a="1")
    assert there(tmp_path) == ["new"]
