"""A path is a path: whatever it looks like, it is the file of that name, or it is refused in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from tests.tables.files import EDGES, saved, written

POSIX = os.name == "posix"
ODD = (
    *("select.csv", "from-2020.csv", "with weights.csv", "values.csv", "SELECT 1 AS source, 2 AS target.csv", "~x.csv", "~"),
    *("a{1}.csv", "it's.csv", "a%20b.csv", "-.csv", "#.csv", "üñ.csv", "a,b.csv", "a[1].csv", "x[.csv", "a].csv"),
    *(("x*.csv", "what?.csv", 'q"q.csv', "b\\c.csv", "n\nl.csv", "file:x.csv", " .csv") if POSIX else ()),
)


def ids(path, **more):
    return read_tables(path, **more).graph.ids.tolist()


@pytest.mark.parametrize(("name", "form"), [(name, ("csv", "csv", "parquet", "jsonl")[i % 4]) for i, name in enumerate(ODD)])
def test_a_file_that_is_there_is_that_file_whatever_its_name(tmp_path, monkeypatch, name, form):
    monkeypatch.chdir(tmp_path)
    # All of them are matched by the odd name, were it a glob, and none of them is it.
    for other in ("a1", "xyz", "whatx", "b[c", "bc", "x"):
        Path(f"{other}.{form}").write_text("source,target\nwrong,other\n")
    path = Path(name.removesuffix(".csv") + f".{form}")
    written(tmp_path, form, {"source": ["a", "b"], "target": ["b", "c"]}, "made").rename(path)
    assert ids(str(path)) == ids(path.absolute()) == ["a", "b", "c"]


def test_a_home_is_what_a_tilde_and_a_slash_stand_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    saved(tmp_path, "e-1.csv", EDGES)
    saved(tmp_path, "x.csv", EDGES)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert ids("~/e-1.csv") == ids("~/e-*.csv") == ["a", "b", "c"]
    with pytest.raises(DataError, match=r"^~x\.csv: there is no such file$"):
        ids("~x.csv")
    with pytest.raises(DataError, match=r"^~/no\.csv: there is no such file; there are ~/e-1\.csv, ~/x\.csv$"):
        ids("~/no.csv")


def test_a_glob_is_one_where_no_file_has_that_name(tmp_path):
    for name, row in (("a1.csv", "a,b"), ("a2.csv", "c,d"), ("b1.csv", "e,f")):
        saved(tmp_path, name, f"source,target\n{row}\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    saved(tmp_path / "deep" / "er", "a3.csv", "source,target\ng,h\n")
    assert ids(tmp_path / "a?.csv") == ids(tmp_path / "a*.csv") == ids(tmp_path / "[!b]*.csv") == ["a", "b", "c", "d"]
    assert ids(tmp_path / "a[2-9].csv") == ["c", "d"]
    assert ids(tmp_path / "**" / "a3.csv") == ["g", "h"]
    saved(tmp_path, "a[2-9].csv", "source,target\nq,r\n")
    assert ids(tmp_path / "a[2-9].csv") == ["q", "r"]


@pytest.mark.skipif(not POSIX, reason="there are no such files")
@pytest.mark.parametrize("name", ["pipe.csv", "/dev/zero", "/dev/fd/0", "zero.csv", "socket.csv"])
def test_pipes_and_devices_are_refused(tmp_path, name):
    path = tmp_path / name
    if name == "pipe.csv":
        os.mkfifo(path)
    elif name == "zero.csv":
        path.symlink_to("/dev/zero")
    elif name == "socket.csv":
        os.mknod(path, 0o600 | 0o140000)
    elif name == "/dev/fd/0":
        end, _ = os.pipe()
        path = f"/dev/fd/{end}"
    for given in ({"edges": path}, {"edges": pa.table({"source": [1], "target": [2]}), "nodes": path}):
        with pytest.raises(DataError) as caught:
            read_tables(**given)
        assert str(caught.value).startswith(f"{path}: it is a pipe or a device, but a table is read more than once")


def test_an_address_is_refused_before_anything_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    schemes = ("http", "s3", "s3a", "gs", "gcs", "r2", "hf", "az", "abfss", "file", "ftp", "HTTPS")
    paths = (
        *(f"{scheme}://127.0.0.1:9/x.csv" for scheme in schemes),
        "https://127.0.0.1:9/x*.parquet",
        "https://127.0.0.1:9/x",
    )
    for path in paths:
        with pytest.raises(DataError) as caught:
            read_tables(path)
        assert str(caught.value) == f"{path}: it is a URL, and only files on this machine are read; download it first"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["\ud800.csv", "a\0b.csv", "\udcff*.csv"])
def test_what_can_be_no_name_of_a_file(path):
    with pytest.raises(DataError, match=r"the file name is not UTF-8$"):
        read_tables(path)


@pytest.mark.skipif(not POSIX, reason="there are no such names")
def test_files_beside_that_are_not_for_reading(tmp_path):
    """Of what a glob matches, only files are read."""
    saved(tmp_path, "a.csv", EDGES)
    (tmp_path / "b.csv").mkdir()
    os.mkfifo(tmp_path / "c.csv")
    (tmp_path / "d.csv").symlink_to(tmp_path / "nowhere")
    assert ids(tmp_path / "*.csv") == ["a", "b", "c"]
