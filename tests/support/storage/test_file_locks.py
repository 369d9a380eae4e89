"""A folder that is being read is not replaced, where the file system has locks."""

from __future__ import annotations

import os
import sys

import pytest

from clnr.errors import ClnrError
from clnr.support.storage import file_locks
from clnr.support.storage.file_locks import is_shared, is_wanted, shared_folder
from tests.support.storage.test_atomic_io import content, there, write

fcntl = pytest.importorskip("fcntl")


def test_a_folder_that_is_read_is_not_replaced(tmp_path):
    write(tmp_path / "read", a="1")
    with shared_folder(tmp_path / "read"):
        with shared_folder(tmp_path / "read"):
            pass
        assert is_shared(tmp_path / "read")
        with pytest.raises(ClnrError, match=r"read is being read by another process, which trains on it; let it finish"):
            write(tmp_path / "read", force=True, a="2")
        assert content(tmp_path / "read") == {"a": "1"}
    assert not is_shared(tmp_path / "read")
    write(tmp_path / "read", force=True, a="2")
    assert content(tmp_path / "read") == {"a": "2"}
    assert there(tmp_path) == ["read"]


@pytest.mark.parametrize("call", ["flock", "open"])
def test_without_locks_or_rights_it_is_read_and_replaced_all_the_same(call, tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    write(tmp_path / "read", a="1")
    with monkeypatch.context() as patch:
        if call == "flock":
            patch.setattr(fcntl, "flock", refused)
        else:
            patch.setattr(file_locks, "os", type("os", (), {"open": refused, "close": os.close, "O_RDONLY": os.O_RDONLY}))
        with shared_folder(tmp_path / "read"):
            assert not is_shared(tmp_path / "read")
    write(tmp_path / "read", force=True, a="2")
    assert content(tmp_path / "read") == {"a": "2"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no leases")
def test_a_program_that_writes_to_a_file_that_is_read_waits(tmp_path):
    write(tmp_path / "read", a="1")
    file = tmp_path / "read" / "a"
    with shared_folder(tmp_path / "read"):
        if not file_locks._leases:
            pytest.skip("a file system without leases")
        assert not is_wanted(file)
        with pytest.raises(BlockingIOError):
            os.open(file, os.O_WRONLY | os.O_NONBLOCK)
        assert is_wanted(file)
        assert not is_wanted(tmp_path / "read" / "b")
    assert not is_wanted(file)
    file.write_text("2")
