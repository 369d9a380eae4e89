from __future__ import annotations

import logging

import pytest

from clnr.support import progress
from clnr.support.progress import Bar, log_progress, logger


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until a test moves it."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_a_training_says_a_line_now_and_then(clock):
    said = []
    with Bar(None, quiet=False, print_line=said.append).training("CLNR on 9 nodes", 1000) as on_epoch:
        for epoch in range(1, 1001):
            clock[0] += 1
            on_epoch(epoch, 1 / epoch)
    assert said[0] == "CLNR on 9 nodes: epoch 10 of 1,000, loss 0.100, 16 min left"
    assert said[1].startswith("CLNR on 9 nodes: epoch 20 of 1,000")
    assert 40 < len(said) < 60  # Ever more rarely: 1,000 s would be 100 lines at 10 s each.
    assert "epoch 1,000" not in said[-1]
    with Bar(None, quiet=True).training("CLNR", 9) as on_epoch:
        assert on_epoch is None


def test_without_a_terminal_a_long_download_says_how_far_it_is(clock):
    said = []
    bar = Bar(None, quiet=False, print_line=said.append)
    for have in range(30):
        bar.fetched("cora", have * 10**8, 3 * 10**9)
        clock[0] += 1
    assert said == ["download cora: 1.0 GB of 3.0 GB", "download cora: 2.0 GB of 3.0 GB"]


def test_verbose_shows_messages_where_no_logging_is_set_up(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with log_progress(verbose=True) as bar:
        bar.note("seen")
    with log_progress(verbose=False) as bar:
        bar.note("not seen")
    assert capsys.readouterr().err == "seen\n"
    assert (logger.level, logger.handlers) == (logging.NOTSET, [])
