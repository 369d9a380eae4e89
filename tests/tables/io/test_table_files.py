"""A path is a path: whatever it looks like, it is the file of that name, or it is refused in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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
    assert ids(str(path)) == ids(path) == ids(path.absolute()) == ["a", "b", "c"]


@pytest.mark.parametrize("folder", ["[1]", "~x", "id=7", *(["a*", "hf:"] if POSIX else [])])
def test_a_folder_of_any_name(tmp_path, monkeypatch, folder):
    (tmp_path / folder).mkdir()
    (tmp_path / "1").mkdir()
    saved(tmp_path / folder, "e.csv", EDGES)
    pq.write_table(pa.table({"source": ["a", "b"], "target": ["b", "c"]}), tmp_path / folder / "e.parquet")
    people = pa.table({"id": ["a", "b", "c"], "label": ["u", "v", "u"], "x": [1, 2, 4]})
    pq.write_table(people, tmp_path / folder / "n.parquet")
    for place in (tmp_path, tmp_path / folder):
        monkeypatch.chdir(place)
        below = folder + "/" if place == tmp_path else ""
        for name in ("e.csv", "e.parquet"):
            # The name of a folder gives no column: 'id=7' would be the id of all nodes.
            found = read_tables(below + name, below + "n.parquet")
            assert found.graph.ids.tolist() == ["a", "b", "c"]
            assert found.graph.labels.tolist() == [0, 1, 0]


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


def test_for_a_file_that_is_not_there_others_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["edges.csv", "edges-2020.csv.gz", "people.parquet", "notes.md", "b.csv", "c.csv", "d.csv", "q.csv", "z.csv"]
    for name in names:
        saved(tmp_path, name, EDGES)
    (tmp_path / "folder.parquet").mkdir()
    for path, said in {
        "edgs.csv": "; did you mean edges.csv?",
        "Peopel.tsv": "; did you mean people.parquet?",
        "edges2020.csv": "; did you mean edges-2020.csv.gz, edges.csv?",
        "films.parquet": "; there are people.parquet",
        str(tmp_path / "films.parquet"): f"; there are {tmp_path / 'people.parquet'}",
        "films*.csv": "; there are b.csv, c.csv, d.csv, edges-2020.csv.gz, edges.csv, ...",
        "films.jsonl": "; there are b.csv, c.csv, d.csv, edges-2020.csv.gz, edges.csv, ...",
        "none/edges.csv": "",
    }.items():
        with pytest.raises(DataError) as caught:
            read_tables(path)
        assert str(caught.value) == f"{path}: there is no such file{said}"


@pytest.mark.parametrize("name", ["x.csv", "x*.parquet", "x"])
def test_an_address_is_refused_before_anything_is_fetched(tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    for scheme in ("http", "https", "s3", "s3a", "gs", "gcs", "r2", "hf", "az", "abfss", "file", "ftp", "HTTPS"):
        path = f"{scheme}://127.0.0.1:9/{name}"
        with pytest.raises(DataError) as caught:
            read_tables(path)
        assert str(caught.value) == f"{path}: it is a URL, and only files on this machine are read; download it first"
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not POSIX, reason="links are for the privileged there")
def test_links_that_lead_nowhere_or_round(tmp_path):
    (tmp_path / "round.csv").symlink_to(tmp_path / "round.csv")
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"round\.csv: it cannot be read: "):
        read_tables(tmp_path / "round.csv")
    with pytest.raises(DataError, match=r"gone\.csv: there is no such file"):
        read_tables(tmp_path / "gone.csv")
    saved(tmp_path, "e.csv", EDGES)
    (tmp_path / "good.csv").symlink_to(tmp_path / "e.csv")
    assert ids(tmp_path / "good.csv") == ["a", "b", "c"]


@pytest.mark.skipif(not POSIX, reason="there are no such names")
def test_the_one_kind_of_name_that_duckdb_cannot_be_told(tmp_path):
    path = saved(tmp_path, "b\\[c.csv", EDGES)
    with pytest.raises(DataError, match="a backslash and one of"):
        read_tables(path)


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
