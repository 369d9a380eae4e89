"""Edges whose ends are two kinds of nodes: told from those of one kind by their values, and what is printed works."""

from __future__ import annotations

import numpy as np
import pytest

from clnr.tables import read_tables
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


@pytest.mark.parametrize("with_films", [True, False])
def test_ratings_are_refused_and_read_where_both_kinds_are_declared(tmp_path, clnr, with_films):
    edges, nodes = ratings(tmp_path), films(tmp_path) if with_films else None
    given = ["--nodes", nodes] if with_films else []
    ended = clnr("ingest", "--edges", edges, *given, "--out", tmp_path / "graph", "--weight", "rating")
    assert ended.code == 2
    assert all(words in ended.err for words in ("'userId'", "'movieId'", "--edges user,NAME,movie=FILE"))
    assert not (tmp_path / "graph").exists()
    read = read_tables({("user", "rated", "movie"): edges}, {"movie": nodes} if with_films else None, weight="rating")
    users, movies, links = read_apart(edges, nodes)
    assert read.graph.num_nodes == users + movies
    assert read.graph.num_edges == 2 * links
    assert [each.split(":")[0] for each in read.graph.ids.tolist()].count("user") == users
    assert read.ingest_report.duplicates == read.ingest_report.loops == 0


def test_named_ends_are_one_kind(tmp_path):
    read = read_tables(ratings(tmp_path), films(tmp_path), source="userId", target="movieId")
    assert read.graph.num_nodes == FILMS
    assert read.ingest_report.hint == ""


# -- one kind, though names are unlike --------------------------------------------------------------------------------------


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
