"""Files and folders appear whole or not at all, whatever happens meanwhile, and nothing that is not clnr's is lost."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clnr.errors import ClnrError, DataError
from clnr.support import storage
from clnr.support.storage import (
    OwnFiles,
    check_folder,
    lock,
    read_stable,
    reserve_folder,
    write_bytes,
    write_folder,
)
from tests.command_line import this_python
from tests.kills import Killed, killed

OWN = OwnFiles(("a", "b", "below", "below/part-*"), lambda folder: True)
# None, or what stands for a system that cannot exchange two folders.
EXCHANGES = pytest.mark.parametrize("exchange", [None, lambda *_: False], ids=["exchanged", "renamed twice"])


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}


def write(path, force=False, error=None, **texts):
    with reserve_folder(path):
        check_folder(path, force, OWN)
        with write_folder(path, force, OWN) as part:
            for name, text in texts.items():
                (part / name).write_text(text)
            if error is not None:
                raise error


# -- kills and errors -------------------------------------------------------------------------------------------------


def test_a_file_outlasts_a_kill_at_any_moment(tmp_path, monkeypatch):
    for at in itertools.count():
        path = tmp_path / str(at) / "file"
        write_bytes(path, b"first")
        try:
            with killed(monkeypatch, at) as passed:
                write_bytes(path, b"second")
        except Killed:
            assert path.read_bytes() in (b"first", b"second")
            write_bytes(path, b"third")
            assert (there(path.parent), path.read_bytes()) == (["file"], b"third")
        else:
            break
    assert {"fsync", "replace", "unlink"} <= set(passed)
    assert path.read_bytes() == b"second"


@EXCHANGES
@pytest.mark.parametrize("before", [{"a": "old"}, {}], ids=["over another", "afresh"])
def test_a_folder_outlasts_a_kill_at_any_moment(before, exchange, tmp_path, monkeypatch):
    after = {"a": "new", "b": "new"}
    for number in itertools.count():
        (at, writes), here = divmod(number, 2), tmp_path / str(number)
        if before:
            write(here / "new", **before)
        try:
            with killed(monkeypatch, at, exchange) as passed:
                write(here / "new", force=True, **after)
        except Killed:
            if exchange is None:
                assert content(here / "new") in (before, after), passed
            if writes:
                write(here / "new", force=True, a="newer")
                assert (content(here / "new"), there(here)) == ({"a": "newer"}, ["new"])
                continue
            with reserve_folder(here / "new"):
                assert content(here / "new") in (before, after), passed
            assert not here.exists() or there(here) in (["new"], [])
        else:
            break
    assert {"fsync", "mkdir", "rename" if exchange or not before else "exchange"} <= set(passed)
    assert content(here / "new") == after


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_on_an_error_the_old_folder_stays_and_nothing_else(tmp_path, error):
    write(tmp_path / "new", a="1")
    for path in (tmp_path / "new", tmp_path / "deep" / "er"):
        with pytest.raises(ClnrError if isinstance(error, OSError) else KeyboardInterrupt):
            write(path, True, error, b="2")
    assert (there(tmp_path), content(tmp_path / "new")) == (["new"], {"a": "1"})


# -- what is there already --------------------------------------------------------------------------------------------


def test_a_link_to_a_folder_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", a="1")
    assert (tmp_path / "link").is_symlink()
    assert (content(tmp_path / "real"), there(tmp_path)) == ({"a": "1"}, ["link", "real"])


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("full", "foreign", "odd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("")
    (tmp_path / "foreign" / "thesis.tex").write_text("years of work")
    before = sorted(tmp_path.rglob("*"))
    check_folder(tmp_path / "full", True, OWN)
    for path, force in (
        (tmp_path / "full", False),
        (tmp_path / "foreign", True),
        (tmp_path / "file", True),
        (tmp_path / "file" / "below", True),
        (tmp_path / "loop", True),
        (tmp_path / "loop" / "below", True),
        (tmp_path / ("long" * 100), True),
        (tmp_path / "a\0b", True),
        (Path("/"), True),
    ):
        with pytest.raises(ClnrError):
            write(path, force, a="1")
    monkeypatch.chdir(tmp_path / "full")
    with pytest.raises(ClnrError, match="working directory"):
        check_folder(tmp_path / "full", True, OWN)
    # By name it could be ours, by content it is not.
    with pytest.raises(ClnrError, match="holds 'a'"):
        check_folder(tmp_path / "odd", True, OwnFiles(OWN.patterns, lambda folder: False))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("force", "name"), [(False, "notes.txt"), (True, "notes.txt"), (False, "a")])
def test_what_comes_while_the_folder_is_written_is_not_lost_nor_is_the_folder(force, name, tmp_path):
    new = tmp_path / "new"
    if force:
        write(new, a="old")

    def work():
        with reserve_folder(new), write_folder(new, force, OWN) as part:
            (part / "b").write_text("result")
            new.mkdir(exist_ok=True)
            (new / name).write_text("dear")

    with pytest.raises(ClnrError) as raised:
        work()
    (kept,) = tmp_path.glob("new-*")
    assert str(kept) in str(raised.value)
    assert content(new) == ({"a": "old"} if force else {}) | {name: "dear"}
    assert content(kept) == {"b": "result"}
    assert there(tmp_path) == ["new", kept.name]


# -- locks ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_process_writes_and_the_lock_of_a_killed_one_is_free(tmp_path):
    script = (
        "import os, signal, sys, pathlib; from clnr.support.storage import lock\n"
        "with lock(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    command, pipe = [sys.executable, "-c", script, tmp_path / "new"], subprocess.PIPE
    with subprocess.Popen(command, env=this_python(), stdin=pipe, stdout=pipe) as process:
        assert process.stdout.readline().strip() == b"held"
        with pytest.raises(ClnrError, match="another process"):
            write(tmp_path / "new", a="1")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert there(tmp_path) == [".new.clnr.lock"]
    write(tmp_path / "new", a="1")
    assert there(tmp_path) == ["new"]


def test_a_lock_that_was_removed_meanwhile_is_the_lock_of_nothing(tmp_path, monkeypatch):
    """Another process lets go, and removes the file, after this one has opened it."""
    real, times = storage._lock, []

    def slow(file, wait):
        times.append(file)
        if len(times) == 1:
            (tmp_path / ".new.clnr.lock").unlink()
        return real(file, wait)

    monkeypatch.setattr(storage, "_lock", slow)
    with lock(tmp_path / "new"):
        assert len(times) == 2
        with pytest.raises(ClnrError), lock(tmp_path / "new"):
            pass
    assert there(tmp_path) == []


def test_without_locks_it_works_all_the_same(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", unknown)
    write(tmp_path / "new", a="1")
    assert there(tmp_path) == ["new"]


# -- reading ----------------------------------------------------------------------------------------------------------


def pair(folder: Path, text: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in "ab":
        (folder / name).write_text(text)


def read_pair(folder: Path, between) -> str:
    """What two files say, with something done after the first was read; they must agree."""
    text = (folder / "a").read_text()
    between()
    if text != (folder / "b").read_text():
        raise DataError("the files do not agree")
    return text


@pytest.mark.parametrize("new", ["new", "old"])
def test_a_folder_replaced_while_it_is_read_is_read_again(tmp_path, new):
    folder, read = tmp_path / "one", []
    pair(folder, "old")

    def between():
        read.append(1)
        if len(read) == 1:
            pair(folder, new)

    assert read_stable(folder, "b", lambda: read_pair(folder, between)) == new
    assert len(read) == 2
    with pytest.raises(DataError, match="another process keeps rewriting it"):
        read_stable(folder, "b", lambda: read_pair(folder, lambda: pair(folder, "newer")))
    (folder / "b").write_text("other")
    with pytest.raises(DataError, match="the files do not agree"):
        read_stable(folder, "b", lambda: read_pair(folder, lambda: read.append(1)))
    assert len(read) == 3


def test_a_folder_that_is_renamed_twice_is_waited_for(tmp_path):
    pair(tmp_path / ".one.clnr.old", "old")
    tries = []

    def read():
        tries.append(1)
        if len(tries) == 3:
            pair(tmp_path / "one", "new")
        if not (tmp_path / "one").is_dir():
            raise DataError("there is no such folder")
        return (tmp_path / "one" / "a").read_text()

    assert read_stable(tmp_path / "one", "b", read) == "new"
    assert len(tries) == 4
