"""A query is one SELECT that reads files of this machine, and can do nothing else."""

from __future__ import annotations

import os

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
        "FROM 'e.csv' ORDER BY ALL LIMIT 5",
        "SELECT DISTINCT source, target FROM 'e.csv' JOIN range(2) ON true WHERE source IN (SELECT source FROM 'e.csv')",
        "-- why\nSELECT source, target /* ends */ FROM 'e.csv' -- all",
        "WITH e AS (FROM 'e.csv') SELECT target AS source, source AS target FROM e",
        "WITH e AS MATERIALIZED (FROM 'e.csv') FROM e UNION ALL FROM e",
        "VALUES ('a', 'b'), ('b', 'c')",
        "SELECT * FROM (VALUES ('a', 'b'), ('b', 'c')) t(\"rowid\", \"null\")",
        "SELECT 'abc'[i] AS source, 'abc'[i + 1] AS target FROM range(1, 3) r(i)",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 2) "
        "SELECT 'abc'[i] AS source, 'abc'[i + 1] AS target FROM r",
        "SELECT ';' AS x, source, target FROM 'e.csv' WHERE source <> 'copy (select 1) to ''evil'''",
        "SELECT source, target FROM 'e.csv' WHERE EXISTS (FROM glob('*.csv'))",
    ],
)
def test_what_a_query_selects_is_the_table(query):
    assert read_tables(edges_query=query).graph.ids.tolist() == ["a", "b", "c"]
    nodes = "SELECT chr(97 + i::INT) AS id, i AS x FROM range(3) r(i)"
    assert read_tables(edges_query=query, nodes_query=nodes).graph.num_features == 1


@pytest.mark.parametrize(
    "query",
    [
        f"COPY ({PAIR}) TO 'evil.csv'",
        *("ATTACH 'evil.db'", "ATTACH 'evil.db' AS x; SELECT 1", "INSTALL httpfs", "LOAD httpfs", "PRAGMA version", "BEGIN"),
        *("SET threads = 1", "RESET threads", "CREATE TABLE t AS SELECT 1", "CREATE MACRO f() AS 1", "VACUUM", "USE main"),
        *("CREATE SECRET (TYPE s3)", "DROP TABLE edges", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "CHECKPOINT"),
        *("DELETE FROM t", "EXPORT DATABASE 'evil'", "IMPORT DATABASE 'evil'", "CALL pragma_version()"),
        *("EXPLAIN ANALYZE SELECT 1", "PREPARE p AS SELECT 1"),
        f"{PAIR}; {PAIR}",
        f"{PAIR}; COPY ({PAIR}) TO 'evil.csv'",
        f"{PAIR};\n-- a comment\nCOPY ({PAIR}) TO 'evil.csv'",
        f"/* {PAIR} */ COPY ({PAIR}) TO 'evil.csv'",
        f"{PAIR}) TO 'evil.csv'; COPY ({PAIR}",
        f"{PAIR}\0; COPY ({PAIR}) TO 'evil.csv'",
        f"WITH x AS (COPY ({PAIR}) TO 'evil.csv') SELECT 1 AS source, 2 AS target FROM x",
        f"SELECT * FROM (WITH x AS (COPY ({PAIR}) TO 'evil.csv') FROM x)",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "WITH x AS (ATTACH 'evil.db') SELECT 1",
        "SELECT * FROM enable_logging(storage_path = 'evil')",
        "SELECT * FROM enable_profiling(save_location = 'evil.json')",
        "SELECT * FROM checkpoint()",
        "SELECT * FROM duckdb_secrets()",
        f"SELECT * FROM query('COPY ({PAIR}) TO ''evil.csv''')",
        f"SELECT * FROM query('{PAIR}')",
        "SELECT * FROM query_table('t')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT 1 AS source, (SELECT count(*) FROM pragma_version()) AS target",
        *("FROM 'http://127.0.0.1:9/e.csv'", "FROM read_csv('https://127.0.0.1:9/*.csv')", "FROM 'hf://datasets/a/b.parquet'"),
        *("FROM read_parquet('s3://bucket/e.parquet')", "FROM sqlite_scan('evil.db', 't')"),
        *("SELECT * FROM edges", "SELECT * FROM nowhere", "SELECT * FROM 'nowhere.csv'"),
        *("SELECT", "", " ; ", "-- nothing", "e.csv", "\ud800"),
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
        read_tables(edges_query=query)
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


def test_what_is_wrong_with_a_query_is_said():
    for query, said in (
        (f"{PAIR}; {PAIR}", "the query of edges: a query is one SELECT and nothing else"),
        ("FROM checkpoint()", "a query cannot select from checkpoint(), only from generate_series, glob, json_each"),
        ("SELECT (", "the query of edges: it cannot be read as SQL: syntax error"),
        ("FROM 'http://127.0.0.1:9/e.csv'", "it is not on this machine: only local files are read"),
        ("SELECT error('one\ntwo') AS a, 2 AS b", "the query of edges: one two"),
    ):
        with pytest.raises(DataError) as caught:
            read_tables(edges_query=query)
        assert said in str(caught.value)


def test_a_query_is_run_once():
    """Else the ids of edges and what was found out about them could be of two draws."""
    query = "SELECT CASE WHEN random() < 0.5 THEN 'a' || i ELSE i::VARCHAR END AS source, i + 1 AS target FROM range(20) r(i)"
    for _ in range(5):
        assert read_tables(edges_query=query).ingest_report.rows == 20


def test_nothing_in_a_connection_can_be_unlocked():
    import duckdb

    db = connect("1 GB")
    rows = db.execute("SELECT name, value FROM duckdb_settings()").fetchall()
    settings = dict(rows)
    for name in ("autoinstall_known_extensions", "autoload_known_extensions", "allow_community_extensions"):
        assert settings[name] == "false"
        with pytest.raises(duckdb.Error, match="locked"):
            db.execute(f"SET {name} = true")
    assert settings["lock_configuration"] == "true"
    db.close()


def test_a_table_is_given_by_one_way():
    with pytest.raises(DataError, match="edges and edges_query are one table"):
        read_tables("e.csv", edges_query=PAIR)
    with pytest.raises(DataError, match="nodes and nodes_query are one table"):
        read_tables("e.csv", "e.csv", nodes_query=PAIR)
    with pytest.raises(DataError, match="there is nothing to read"):
        read_tables()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize(
    "query",
    [
        "FROM 'pipe.csv'",
        "SELECT e.* FROM 'e.csv' AS e JOIN \"pipe.csv\" USING (source)",
        "FROM read_csv('pipe.csv', header = true)",
        "FROM read_csv(['e.csv', 'pipe.csv'])",
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
        read_tables(edges_query=query)


def test_a_table_of_with_may_be_called_as_a_folder_is(tmp_path):
    (tmp_path / "e").mkdir()
    assert read_tables(edges_query="WITH e AS (FROM 'e.csv') FROM e").graph.num_nodes == 3
