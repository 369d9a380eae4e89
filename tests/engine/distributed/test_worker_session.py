"""What becomes of an error in a worker: one line, reported once, and an exit code."""

from __future__ import annotations

import pytest

from clnr.engine.distributed import worker_session
from clnr.engine.distributed.worker_session import joined, session
from clnr.errors import ClnrError, DataError, LostWorker
from clnr.support.processes.launch import FAILED, USER_ERROR, Place
from clnr.support.processes.workers import Workers


def ended(error: Exception, monkeypatch, reports: bool = True) -> Exception:
    """How the second of two workers ends after an error."""
    group = Workers()
    monkeypatch.setattr(group, "claim", lambda: reports)
    monkeypatch.setattr(worker_session, "join", lambda device: group)
    with pytest.raises((ClnrError, OSError, SystemExit)) as caught, session(Place(1, 2, 1, 2), "cpu", print):
        raise error
    return caught.value


def test_an_exception_is_one_line_and_no_loss(monkeypatch):
    found = ended(ZeroDivisionError("by zero\nor so"), monkeypatch)
    assert type(found) is ClnrError
    assert str(found).startswith("worker 1 of 2 failed: ZeroDivisionError: by zero or so (test_worker_session.py, line ")
    assert ended(ZeroDivisionError(), monkeypatch, reports=False).code == USER_ERROR


def test_an_error_of_the_user_keeps_its_words(monkeypatch):
    assert str(ended(DataError("no such file"), monkeypatch)) == "worker 1 of 2: no such file"
    assert str(ended(OSError("no space"), monkeypatch)) == "no space"


def test_a_loss_is_an_exit_code_and_a_line(monkeypatch, capsys):
    error = LostWorker("worker 1 of 2 lost another one")
    assert ended(error, monkeypatch).code == FAILED
    assert str(error) in capsys.readouterr().out


def test_an_exit_stays_what_it_is(monkeypatch):
    assert ended(SystemExit(5), monkeypatch).code == 5


def test_who_fails_lets_the_others_know_and_leaves(monkeypatch):
    calls = []

    class Group(Workers):
        def claim(self) -> bool:
            calls.append("claim")
            return True

        def leave(self) -> None:
            calls.append("leave")

        def close(self) -> None:
            calls.append("close")

    monkeypatch.setattr(worker_session, "join", lambda device: Group())
    with joined("cpu"):
        pass
    with pytest.raises(KeyboardInterrupt), joined("cpu"):
        raise KeyboardInterrupt
    assert calls == ["leave", "close", "claim", "close"]
