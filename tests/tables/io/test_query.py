"""A query is one SELECT that reads files of this machine, and can do nothing else."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from clnr.tables.io import query as query_module
from clnr.tables.io.sql import connect
from tests.tables.files import EDGES, saved

PAIR = "SELECT 1 AS source, 2 AS target"


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """A folder with a table, which is the home as well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    saved(tmp_path, "e.csv", EDGES)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM 'e.csv'",
        "FROM 'e.csv'",
        "from Read_CSV('e*.csv') ;",
        "SELECT DISTINCT source, target FROM 'e.csv' JOIN range(2) ON true WHERE source IN (SELECT source FROM 'e.csv')",
        " \nSELECT source, target /* ends */ FROM 'e.csv' -- all",
        "WITH e AS (FROM 'e.csv') SELECT target AS source, source AS target FROM e",
        "SELECT * FROM (VALUES ('a', 'b'), ('b', 'c')) t(\"rowid\", \"null\")",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 2) "
        "SELECT 'abc'[i] AS source, 'abc'[i + 1] AS target FROM r",
        "SELECT ';' AS x, source, target FROM 'e.csv' WHERE source <> 'copy (select 1) to ''evil'''",
        "SELECT source, target FROM 'e.csv' WHERE EXISTS (FROM glob('*.csv'))",
    ],
)
def test_what_a_query_selects_is_the_table(query):
    assert read_tables(edges=query).graph.ids.tolist() == ["a", "b", "c"]
    nodes = "SELECT chr(97 + i::INT) AS id, i AS x FROM range(3) r(i)"
    assert read_tables(edges=query, nodes=nodes).graph.num_features == 1


@pytest.mark.parametrize(
    "query",
    [
        f"COPY ({PAIR}) TO 'evil.csv'",
        *("ATTACH 'evil.db'", "ATTACH 'evil.db' AS x; SELECT 1", "INSTALL httpfs", "LOAD httpfs", "PRAGMA version", "BEGIN"),
        *("SET threads = 1", "RESET threads", "CREATE TABLE t AS SELECT 1", "CREATE MACRO f() AS 1", "VACUUM", "USE main"),
        *("CREATE SECRET (TYPE s3)", "DROP TABLE edges", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "CHECKPOINT"),
        *("EXPORT DATABASE 'evil'", "CALL pragma_version()", "EXPLAIN ANALYZE SELECT 1", "PREPARE p AS SELECT 1"),
        f"{PAIR}; {PAIR}",
        f"{PAIR}; COPY ({PAIR}) TO 'evil.csv'",
        f"/* {PAIR} */ COPY ({PAIR}) TO 'evil.csv'",
        f"{PAIR}) TO 'evil.csv'; COPY ({PAIR}",
        f"{PAIR}\0; COPY ({PAIR}) TO 'evil.csv'",
        f"WITH x AS (COPY ({PAIR}) TO 'evil.csv') SELECT 1 AS source, 2 AS target FROM x",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "SELECT * FROM enable_logging(storage_path = 'evil')",
        "SELECT * FROM enable_profiling(save_location = 'evil.json')",
        "SELECT * FROM checkpoint()",
        "SELECT * FROM duckdb_secrets()",
        f"SELECT * FROM query('COPY ({PAIR}) TO ''evil.csv''')",
        "SELECT * FROM query_table('t')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT 1 AS source, (SELECT count(*) FROM pragma_version()) AS target",
        *("FROM 'http://127.0.0.1:9/e.csv'", "FROM read_csv('https://127.0.0.1:9/*.csv')", "FROM 'hf://datasets/a/b.parquet'"),
        *("FROM read_parquet('s3://bucket/e.parquet')", "FROM sqlite_scan('evil.db', 't')"),
        *("SELECT * FROM edges", "SELECT * FROM nowhere", "SELECT * FROM 'nowhere.csv'"),
        *("SELECT", "", " ; ", "-- nothing", "\ud800"),
        "SELECT $1 AS source, 2 AS target",
        "SELECT 'a'::INT AS source, 2 AS target",
        "SELECT error('one\ntwo') AS source, 2 AS target",
        "SELECT '" + "x" * 100_000 + "'::INT AS source, 2 AS target",
        f"SELECT {'abs(' * 5000}1{')' * 5000} AS source, 2 AS target",
        f"SELECT {'(SELECT ' * 500}1{')' * 500} AS source, 2 AS target",
        "SELECT * FROM " + "(SELECT * FROM " * 2000 + "nowhere" + ")" * 2000,
    ],
)
def test_anything_else_is_refused_and_leaves_nothing_behind(tmp_path, query):
    with pytest.raises(DataError):
        read_tables(edges=query)
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


def test_a_query_is_run_once():
    """Else the ids of edges and what was found out about them could be of two draws."""
    query = "SELECT CASE WHEN random() < 0.5 THEN 'a' || i ELSE i::VARCHAR END AS source, i + 1 AS target FROM range(20) r(i)"
    for _ in range(5):
        assert read_tables(edges=query).ingest_report.rows == 20


def test_nothing_in_a_connection_can_be_unlocked():
    with connect("1 GB") as db:
        settings = dict(db.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    for name in ("autoinstall_known_extensions", "autoload_known_extensions", "allow_community_extensions"):
        assert settings[name] == "false"
    assert settings["lock_configuration"] == "true"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize(
    "query",
    [
        "FROM 'pipe.csv'",
        "SELECT e.* FROM 'e.csv' AS e JOIN \"pipe.csv\" USING (source)",
        "FROM read_csv('pi' || 'pe.csv')",
        "FROM read_text('pipe.csv')",
        "FROM read_json('link.json')",
        "WITH x AS (FROM 'pipe.csv') SELECT source, target FROM 'e.csv' WHERE source IN (SELECT source FROM x)",
    ],
)
def test_a_pipe_is_refused_and_not_opened(tmp_path, monkeypatch, query):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "link.json").symlink_to("pipe.csv")
    run = query_module.run

    def run_unless_opened(db, sql, *more):
        assert not sql.startswith("CREATE"), "this would wait for the pipe"
        return run(db, sql, *more)

    monkeypatch.setattr(query_module, "run", run_unless_opened)
    with pytest.raises(DataError, match=r"^(pipe\.csv|link\.json): it is a pipe or a device"):
        read_tables(edges=query)


NODES = "SELECT id, x, tag FROM {nodes} JOIN {tags} USING (k)"
WEIGHTED = "SELECT source, target, count(*) AS weight FROM {edges} GROUP BY ALL"


def shuffled(file, seed):
    """A source of rows in an order that depends on a seed."""
    return f"(SELECT * FROM '{file}' s ORDER BY hash(s, {seed}))"


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (NODES, WEIGHTED),
        ("SELECT DISTINCT id, x FROM {nodes}", "SELECT DISTINCT source, target FROM {edges}"),
        ("SELECT id, any_value(x) AS x FROM {nodes} GROUP BY id", "FROM {edges}"),
        ("SELECT id, x FROM {nodes} WHERE k IN (SELECT k FROM {tags})", "FROM {edges} UNION FROM {edges}"),
        ("SELECT id, x, count(*) OVER (PARTITION BY x) AS n FROM {nodes}", WEIGHTED),
        (None, WEIGHTED),
    ],
)
def test_the_same_graph_comes_of_rows_in_any_order(nodes, edges):
    """And of any number of threads, which mix rows in the same way."""
    ids, few = [f"n{i * 37 % 500}" for i in range(500)], list(range(500))
    pq.write_table(pa.table({"id": ids, "x": [i * 7 % 11 for i in few], "k": [i % 9 for i in few]}), "n.parquet")
    pq.write_table(pa.table({"k": list(range(9)), "tag": list("abcabcabd")}), "t.parquet")
    ends = {"source": [ids[i * i % 500] for i in range(2000)], "target": [ids[i * 13 % 500] for i in range(2000)]}
    pq.write_table(pa.table(ends), "e.parquet")
    reads = []
    for seed in range(3):
        files = {name: shuffled(f"{name[0]}.parquet", seed) for name in ("nodes", "tags", "edges")}
        given = {} if nodes is None else {"nodes": nodes.format(**files)}
        reads.append(read_tables(edges=edges.format(**files), **given))
    assert len({read.graph.digest for read in reads}) == 1
    assert reads[0].graph.ids.tolist() == sorted(ids)
    assert reads[0].feature_encoder == reads[1].feature_encoder == reads[2].feature_encoder
    assert reads[0].ingest_report == reads[1].ingest_report == reads[2].ingest_report


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("FROM 'n.csv'", "cba"),
        ("SELECT *, x + 1 AS y FROM (FROM 'n.csv' WHERE x > 1)", "cb"),
        ("WITH n AS (FROM 'n.csv') SELECT *, row_number() OVER () AS n FROM n LIMIT 2", "cb"),
        ("SELECT DISTINCT * FROM 'n.csv' ORDER BY x DESC", "cba"),
        ("SELECT DISTINCT * FROM 'n.csv'", "abc"),
    ],
)
def test_rows_of_one_file_and_an_order_by_keep_their_order(tmp_path, query, ids):
    saved(tmp_path, "n.csv", "id,x\nc,3\nb,2\na,1\n")
    assert read_tables("e.csv", nodes=query).graph.ids.tolist() == [*ids]


def test_rows_beside_a_matrix_are_in_order(tmp_path):
    saved(tmp_path, "n.csv", "id,x\nc,3\nb,2\na,1\n")
    matrix, query = np.eye(3), "SELECT DISTINCT * FROM 'n.csv'"
    with pytest.raises(DataError, match="the query of nodes: end it with ORDER BY: its rows have no fixed order, and row"):
        read_tables("e.csv", nodes=query, feature_matrix=matrix)
    read = read_tables("e.csv", nodes=f"{query} ORDER BY x", feature_matrix=matrix)
    assert read.graph.ids.tolist() == ["a", "b", "c"]
