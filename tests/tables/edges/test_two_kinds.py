"""Edges whose ends are two kinds of nodes: told from those of one kind by their values, and what is printed works."""

from __future__ import annotations

import shlex

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from clnr.errors import DataError
from clnr.tables import ingest, load_graph_folder, read_tables
from tests.command_line import entry_point
from tests.tables.files import saved

FILMS = 120


def pairs(count, sources, targets, seed=0):
    """Distinct pairs, popular targets more often than others."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, len(targets) + 1) ** 0.5
    picked = zip(rng.choice(sources, count), rng.choice(targets, count, p=chance / chance.sum()), strict=True)
    return sorted({(a.item(), b.item()) for a, b in picked})


def table(folder, name, header, rows):
    return saved(folder, name, "\n".join([header, *(",".join(map(str, row)) for row in rows), ""]))


def ratings(folder, header="userId,movieId,rating,timestamp", users=40, count=900):
    rows = pairs(count, np.arange(1, users + 1), np.arange(1, FILMS + 1))
    return table(folder, "ratings.csv", header, [(a, b, 1 + a % 5, 964982703 + i) for i, (a, b) in enumerate(rows)])


def films(folder, key="movieId"):
    rows = [(i, f"Film no {i // 2}", 1950 + i % 60) for i in range(1, FILMS + 1)]
    return table(folder, "movies.csv", f"{key},title,year", rows)


def read_apart(edges, nodes=None):
    """The counts that a reading with two kinds must give: of users, films, and edges between them."""
    found = set()
    for line in edges.read_text().splitlines()[1:]:
        user, film = line.split(",")[:2]
        found.add((f"user:{user}", f"movie:{film}"))
    rated = {film for _, film in found}
    in_table = {f"movie:{line.split(',')[0]}" for line in nodes.read_text().splitlines()[1:]} if nodes else set()
    return len({user for user, _ in found}), len(rated | in_table), len(found)


# -- two kinds --------------------------------------------------------------------------------------------------------------


def printed_command(ended):
    """The last words that a refusal prints, as a shell would split them, without the name of the program."""
    assert ended.code == 2
    line, command = ended.err.splitlines()[-2:]
    assert "look like two kinds of nodes" in line
    program, *words = shlex.split(command)
    assert program == "clnr"
    return words


@pytest.mark.parametrize("with_films", [True, False])
@pytest.mark.parametrize("way", ["apart", "with =", "with blanks"])
def test_ratings_stop_with_a_command_that_works_as_printed(tmp_path, monkeypatch, capsys, with_films, way):
    call, folder = entry_point(monkeypatch, capsys), tmp_path / ("two words" if way == "with blanks" else "f")
    folder.mkdir()
    edges, nodes = ratings(folder), films(folder) if with_films else None
    given = {"--edges": edges, **({"--nodes": nodes} if with_films else {}), "--out": folder / "graph"}
    words = [f"{option}={value}" for option, value in given.items()] if way == "with =" else sum(given.items(), ())
    ended = call("ingest", *words, "--weight", "rating")
    assert not (folder / "graph").exists()
    again = call(*printed_command(ended))
    assert again.code == 0, again.err
    read = load_graph_folder(folder / "graph")
    users, movies, links = read_apart(edges, nodes)
    assert read.graph.num_nodes == users + movies
    assert read.graph.num_edges == 2 * links
    assert [each.split(":")[0] for each in read.graph.ids.tolist()].count("user") == users
    assert read.ingest_report.duplicates == read.ingest_report.loops == 0


@pytest.mark.full
def test_embed_stops_likewise_and_its_command_works(tmp_path, monkeypatch, capsys):
    call = entry_point(monkeypatch, capsys)
    given = ["--edges", ratings(tmp_path), "--nodes", films(tmp_path), "--out", tmp_path / "mine", "--effort", "quick"]
    again = call(*printed_command(call("embed", *given, "--no-report", "-q")))
    assert again.code == 0, again.err
    assert (tmp_path / "mine" / "embeddings.parquet").is_file()


def test_in_python_the_arguments_are_printed_and_work(tmp_path):
    edges, nodes = ratings(tmp_path), films(tmp_path)
    for tables in ((edges, nodes), (str(edges), str(nodes)), (csv.read_csv(edges), csv.read_csv(nodes))):
        with pytest.raises(
            DataError, match=r"^(\S+ratings.csv|the data frame of edges): 'userId' and 'movieId' look"
        ) as caught:
            read_tables(*tables)
        arguments = eval(f"dict({caught.value.command})", {"edges": tables[0], "nodes": tables[1]})
        assert str(caught.value).endswith(f"run:\n{caught.value.command}")
        users, movies, links = read_apart(edges, nodes)
        read = read_tables(**arguments)
        assert (read.graph.num_nodes, read.graph.num_edges) == (users + movies, 2 * links)
        assert read.ingest_report.node_kinds == ("movie", "user")
        with pytest.raises(DataError) as written:
            ingest(*tables, out=tmp_path / "graph")
        assert str(written.value) == str(caught.value)
    assert not (tmp_path / "graph").exists()


def test_named_ends_are_one_kind(tmp_path):
    read = read_tables(ratings(tmp_path), films(tmp_path), source="userId", target="movieId")
    assert read.graph.num_nodes == FILMS
    assert read.ingest_report.hint == ""


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("user_id,item_id,r,t", "id"),
        ("Customer ID,Article,r,t", "article"),
        ("reader,book.no,r,t", "no"),
        ("recipe_id,ingredient_id,r,t", "ingredient_id"),
        ("train,station,r,t", "station"),
    ],
)
def test_whatever_columns_are_called(tmp_path, monkeypatch, capsys, header, key):
    call = entry_point(monkeypatch, capsys)
    given = ["ingest", "--edges", ratings(tmp_path, header), "--nodes", films(tmp_path, key), "--out", tmp_path / "graph"]
    assert call(*printed_command(call(*given))).code == 0
    assert load_graph_folder(tmp_path / "graph").graph.num_nodes == 40 + FILMS


def test_a_table_that_knows_one_end_alone_is_enough(tmp_path):
    """Words meet by no chance: without kinds, no edge would be left. Few users are numbers of films, too."""
    rows = pairs(300, np.array([f"u{i}" for i in range(30)]), np.array([f"m{i}" for i in range(50)]))
    nodes = table(tmp_path, "n.csv", "movie,year", [(f"m{i}", 1950 + i % 7) for i in range(50)])
    with pytest.raises(DataError, match=r"n.csv has 100% of the ids in 'movie' and 0% of those in 'user'; no id is in both"):
        read_tables(table(tmp_path, "e.csv", "user,movie", rows), nodes)
    rows = pairs(60, np.arange(1000, 1900, 7), np.arange(50))
    nodes = table(tmp_path, "n.csv", "movie,x", [(i, i % 7) for i in range(50)])
    with pytest.raises(DataError, match="100% of the ids in 'movie' and 0% of those in 'user'"):
        read_tables(table(tmp_path, "e.csv", "user,movie", rows), nodes)


def test_users_have_no_values_and_films_have_theirs(tmp_path):
    edges, nodes = ratings(tmp_path), films(tmp_path)
    read = read_tables({("user", "rated", "movie"): edges}, {"movie": nodes})
    x, kinds = read.graph.features.toarray(), np.array([each.split(":")[0] for each in read.graph.ids.tolist()])
    assert [each.column for each in read.feature_encoder.column_encoders] == ["node_kind", "movie.title", "movie.year"]
    np.testing.assert_array_equal(x[:, :2], np.stack([kinds == "movie", kinds == "user"], 1))
    assert not x[kinds == "user", 2:].any()
    years = np.array([1950 + i % 60 for i in range(1, FILMS + 1)])
    np.testing.assert_allclose(x[kinds == "movie", -1], (years - years.mean()) / years.std(), rtol=1e-5)
    rows = read.columns.to_pydict()
    assert [each for each in rows["original_id"] if each is not None] == [*range(1, FILMS + 1), *range(1, 41)]
    assert rows["title"][-1] is None
    assert "nodes of the kind 'user' have no table; they come from the edges" in read.ingest_report.remarks
    ingest({("user", "rated", "movie"): edges}, {"movie": nodes}, out=tmp_path / "graph")
    folder = load_graph_folder(tmp_path / "graph")
    assert (folder.graph.digest, folder.ingest_report) == (read.graph.digest, read.ingest_report)
    more = read_tables({("user", "rated", "movie"): pa.table({"user": [77], "movie": [3]})}, base=read)
    assert more.graph.ids.tolist()[-1] == "user:77"
    alone = read_tables({("user", "rated", "movie"): edges}, {"movie": nodes}, feature_encoder=read.feature_encoder)
    assert alone.graph.digest == read.graph.digest


# -- perhaps two kinds ------------------------------------------------------------------------------------------------------

FEW = [(i % 5, (3 * i) % 7) for i in range(20)]


def test_weak_evidence_goes_on_with_the_command_as_the_first_line(tmp_path, monkeypatch, capsys):
    call = entry_point(monkeypatch, capsys)
    edges = table(tmp_path, "orders.csv", "user,item", FEW)
    ended = call("embed", "--edges", edges, "--dry-run", "--header")
    assert ended.code == 0
    first = ended.out.splitlines()[0]
    assert first.startswith(f"{edges}: 'user' and 'item' may be two kinds of nodes: self-loops (")
    program, *words = shlex.split(first.partition("if not, run: ")[2])
    assert (program, words) == ("clnr", ["embed", "--edges", f"user,orders,item={edges}", "--dry-run", "--header"])
    again = call(*words)
    assert again.code == 0
    assert again.out.startswith("read: 12 nodes,")
    ended = call("ingest", "--edges", edges, "--out", tmp_path / "graph", "-q")
    assert ended.code == 0
    assert ended.err.splitlines()[0].startswith(f"clnr: {edges}: 'user' and 'item' may be two kinds")
    assert load_graph_folder(tmp_path / "graph").ingest_report.hint in ended.err


def test_words_of_two_sorts_are_told_where_there_is_no_node_table(tmp_path):
    rows = [(f"p{i // 2}", f"B{i % 7}") for i in range(30)]
    for names in ("person,book", "customer,store", "patient,treatment", "company,commodity"):
        read = read_tables(table(tmp_path, "e.csv", names, rows), header=True)
        ends = "'{}' and '{}'".format(*names.split(","))
        assert f"{ends} may be two kinds of nodes: no id is in both; if they are one kind" in read.ingest_report.hint
    both = table(tmp_path, "n.csv", "id,x", [(each, i % 3) for i, each in enumerate(sorted({a for row in rows for a in row}))])
    assert read_tables(table(tmp_path, "e.csv", "person,book", rows), both, header=True).ingest_report.hint == ""


def test_as_many_users_as_films_are_told(tmp_path):
    """All ids are in both columns; the node table is called as one of them."""
    rows = pairs(900, np.arange(1, FILMS + 1), np.arange(1, FILMS + 1))
    edges = table(tmp_path, "e.csv", "userId,movieId", rows)
    assert "nodes={'movie': " in read_tables(edges, films(tmp_path)).ingest_report.hint
    assert read_tables(edges, films(tmp_path, "id")).ingest_report.hint == ""


def test_a_query_is_told_to_be_a_file(tmp_path):
    query = f"SELECT * FROM '{ratings(tmp_path)}'"
    assert "give files of edges: --edges user,NAME,movie=FILE" in read_tables(edges=query).ingest_report.hint


# -- one kind, though names are unlike --------------------------------------------------------------------------------------


def relation(name, rng, n):
    """Edges of one kind, as they are: a tree, sales with or without ones to oneself, and friends, of whom many are mutual."""
    ids = rng.permutation(np.arange(1, n + 1))
    if name == "employee,manager":
        return [(ids[i].item(), ids[rng.integers(0, 1 + i // 6)].item()) for i in range(1, n)]
    rows = {(a.item(), b.item()) for a, b in rng.choice(ids, (12 * n, 2))}
    if name == "buyer,seller":
        return sorted(rows if n % 2 else {row for row in rows if row[0] != row[1]})
    known = {(a, b) for a, b in rows if a < b and (a + b) % 3 == 0}
    return sorted(known | {(b, a) for a, b in known if (a * b) % 4})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nodes", ["all", "most", None])
@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("names", ["employee,manager", "buyer,seller", "user,friend"])
def test_employees_and_managers_buyers_and_sellers_users_and_friends_are_one_kind(tmp_path, names, words, nodes, seed):
    n = 150 + seed
    rows = relation(names, np.random.default_rng(seed), n)
    if words:
        rows = [(f"p{a}", f"p{b}") for a, b in rows]
    ids = [f"p{i}" if words else i for i in range(1, n + 1)][: n if nodes == "all" else int(0.97 * n)]
    # Sales to oneself occur as often as by chance, so that the name of the id column would be all that tells.
    key = "person" if names == "buyer,seller" else names.split(",")[0]
    people = None if nodes is None else table(tmp_path, "n.csv", f"{key},x", [(i, k % 5) for k, i in enumerate(ids)])
    read = read_tables(table(tmp_path, "e.csv", names, rows), people, header=True)
    assert read.ingest_report.hint == ""
    assert read.ingest_report.node_kinds == ()


def test_ends_that_are_called_alike_or_so_by_habit_are_not_looked_at(tmp_path):
    rows = [(a, b) for a, b, *_ in (line.split(",") for line in ratings(tmp_path).read_text().splitlines()[1:])]
    alike = (
        "citing,cited",
        "id_1,id_2",
        "departure_city,arrival_city",
        "author,coauthor",
        "payer,payee",
        "city of origin,end city",
    )
    for names in ("source,target", "a,b", "from,to", *alike):
        assert read_tables(table(tmp_path, "e.csv", names, rows)).ingest_report.hint == ""
    assert read_tables(saved(tmp_path, "e.csv", "".join(f"{a},{b}\n" for a, b in rows))).ingest_report.hint == ""
