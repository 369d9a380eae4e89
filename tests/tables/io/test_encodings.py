"""Files in other encodings than UTF-8 are the graph that the same text in UTF-8 is, or are refused with what helps."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import ingest, load_graph_folder, read_tables
from clnr.tables.io import encodings
from tests.command_line import assert_refused, entry_point
from tests.tables.files import saved

EDGES = "source;target\nMüller;São Paulo\nSão Paulo;Ångström\nÅngström;Müller\n"
NODES = "id;price;about\nMüller;5 €;“naïve” – 20 °C\nSão Paulo;7 €;señor\nÅngström;9 €;ßplit\n"
RUSSIAN = "source;target\nМосква;Тверь\nТверь;Псков\nПсков;Москва\n"
JAPANESE = "source;target\n東京;大阪\n大阪;京都\n"
POLISH = "source;target\nŁódź;Złotów\nZłotów;Wąsosz\nBiałystok;Łódź\n"


def facts_of(read):
    return read.graph.digest, None if read.columns is None else read.columns.to_pydict()


def as_read(*paths, **asked):
    return facts_of(read_tables(*paths, **asked))


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """What both tables are in UTF-8."""
    folder = tmp_path_factory.mktemp("right")
    return as_read(saved(folder, "e.csv", EDGES), saved(folder, "n.csv", NODES))


def notes_of(read):
    return [line.split(": ", 1)[1] for line in read.ingest_report.remarks if "read as" in line]


SAID = "read as {}; if that is wrong, set --encoding"
FOUND = {
    "utf-8": None,
    "utf-8-sig": None,
    "cp1252": "Windows-1252",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16-LE",
    "utf-16-be": "UTF-16-BE",
    "utf-32": "UTF-32",
}


def expected_notes(encoding):
    return [] if FOUND[encoding] is None else [SAID.format(FOUND[encoding])] * 2


@pytest.mark.parametrize("encoding", FOUND)
def test_what_can_be_told_is_found_and_said(tmp_path, right, encoding):
    paths = [saved(tmp_path, name, text.encode(encoding)) for name, text in (("e.csv", EDGES), ("n.csv", NODES))]
    read = read_tables(*paths)
    assert (facts_of(read), notes_of(read)) == (right, expected_notes(encoding))
    if encoding != "utf-8-sig":
        read = read_tables(*paths, encoding=encoding)
        assert (facts_of(read), notes_of(read)) == (right, [])


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_so_it_is_in_files_that_are_packed_and_where_a_graph_folder_is_written(tmp_path, right, encoding):
    texts = {"e.csv.gz": EDGES, "n.csv.gz": NODES}
    paths = [saved(tmp_path, name, gzip.compress(text.encode(encoding))) for name, text in texts.items()]
    ingest(*paths, out=tmp_path / "graph")
    folder = load_graph_folder(tmp_path / "graph")
    assert (folder.graph.digest, folder.columns.to_pydict()) == right
    assert notes_of(folder) == expected_notes(encoding)
    assert {path.name for path in tmp_path.iterdir()} == {"graph", *texts}


OTHERS = {"cp1251": RUSSIAN, "koi8-r": RUSSIAN, "shift_jis": JAPANESE, "cp1250": POLISH}


@pytest.mark.parametrize(("encoding", "text"), OTHERS.items())
def test_what_cannot_be_told_is_refused_and_read_if_said(tmp_path, monkeypatch, capsys, encoding, text):
    """Windows-1252 has other letters in the same bytes; that would be read without an error."""
    right = as_read(saved(tmp_path, "right.csv", text))
    path = saved(tmp_path, "e.csv", text.encode(encoding))
    call = entry_point(monkeypatch, capsys)
    given = ["ingest", "--edges", path, "--out", tmp_path / "graph"]
    said = assert_refused(call(*given, "-q"))
    assert f"{path}: line 2: it is not UTF-8 text; set its encoding, such as --encoding cp1252" in said
    assert as_read(path, encoding=encoding) == right
    assert call(*given, "--encoding", encoding).code == 0
    assert load_graph_folder(tmp_path / "graph").graph.digest == right[0]


def test_a_letter_counts_where_one_part_ends_and_the_next_begins(tmp_path):
    """Bytes of it may begin a letter of UTF-8, and what follows is ASCII alone."""
    begin = b"source,target\n" + b"a,b\n" * 260_000
    begin += b"x" * (encodings._PART_BYTES - 1 - len(begin))
    read = read_tables(saved(tmp_path, "e.csv", begin + "éx,b\nc,d\n".encode("cp1252")))
    assert any(each.endswith("xéx") for each in read.graph.ids.tolist())


def test_each_file_of_a_glob_has_its_own(tmp_path):
    for name, encoding in (("a", "utf-8"), ("b", "cp1252"), ("c", "utf-16")):
        saved(tmp_path, f"{name}.csv", f"source,target\nMüller,{name}\n".encode(encoding))
    read = read_tables(tmp_path / "*.csv")
    assert read.graph.ids.tolist() == ["Müller", "a", "b", "c"]
    assert notes_of(read) == [SAID.format("Windows-1252")]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
@pytest.mark.parametrize("lines", [True, False])
def test_json(tmp_path, encoding, lines):
    rows = [{"source": "Müller", "target": "São Paulo"}, {"source": "São Paulo", "target": "x"}]
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    text = "\n".join(texts) if lines else f"[{', '.join(texts)}]"
    path = saved(tmp_path, "e.jsonl" if lines else "e.json", text.encode(encoding))
    assert as_read(path)[0] == as_read(pa.Table.from_pylist(rows))[0]


QUERIES = (
    "FROM 'n.csv'",
    "SELECT n.id, n.price, about FROM read_csv('n.csv') n",
    "SELECT DISTINCT * FROM read_csv(['n.csv', 'parts/b/n2.csv'], header = true, delim = ';')",
    "SELECT * FROM read_csv('parts/*/n?.csv', header = true, delim = ';')",
    "FROM 'parts/*/N?.CSV.gz'",
    "WITH n AS (FROM 'n.csv') SELECT * FROM n WHERE id IN (SELECT source FROM read_csv('e.csv'))",
)


@pytest.mark.parametrize(("encoding", "queries"), [("utf-8", QUERIES[:1]), ("cp1252", QUERIES), ("utf-16", QUERIES[2:3])])
def test_files_of_a_query_are_read_as_those_of_tables(tmp_path, monkeypatch, right, encoding, queries):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts" / "a").mkdir(parents=True)
    (tmp_path / "parts" / "b").mkdir()
    head, first, *rest = NODES.splitlines(keepends=True)
    texts = {"e.csv": EDGES, "n.csv": NODES, "n.csv.gz": NODES}
    texts |= {"parts/a/n1.csv": head + first, "parts/b/n2.csv": head + "".join(rest)}
    texts |= {"parts/a/N1.CSV.gz": head + first, "parts/b/N2.CSV.gz": head + "".join(rest)}
    for name, text in texts.items():
        content = text.encode(encoding)
        saved(tmp_path, name, gzip.compress(content) if name.endswith(".gz") else content)
    for query in (f"{each} ORDER BY price" for each in queries):
        read = read_tables("e.csv", nodes=query)
        assert (facts_of(read), notes_of(read)) == (right, expected_notes(encoding)), query
    assert as_read("e.csv", nodes=query, encoding=encoding) == right
    ingest("e.csv", nodes=queries[0], out="graph")
    assert load_graph_folder(tmp_path / "graph").graph.digest == right[0]


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = saved(tmp_path, "e.csv", EDGES.encode("utf-16"))
    read_tables(path)
    read_tables(edges=f"FROM '{path}'")
    with pytest.raises(DataError):
        read_tables(path, encoding="ascii")
    with pytest.raises(DataError):
        read_tables(edges=f"FROM '{path}'", encoding="ascii")
    assert list(temporary.iterdir()) == []
