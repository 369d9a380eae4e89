"""Edges whose ends are two kinds of nodes: told from those of one kind by their values."""

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


def ratings(folder):
    rows = enumerate(pairs(900, np.arange(1, 41), np.arange(1, FILMS + 1)))
    header = "userId,movieId,rating,timestamp"
    return table(folder, "ratings.csv", header, [(a, b, 1 + a % 5, 964982703 + i) for i, (a, b) in rows])


def films(folder):
    rows = [(i, f"Film no {i // 2}", 1950 + i % 60) for i in range(1, FILMS + 1)]
    return table(folder, "movies.csv", "movieId,title,year", rows)


@pytest.mark.parametrize("with_films", [True, False])
def test_ratings_are_refused_until_both_kinds_are_declared(tmp_path, clnr, with_films):
    given = ["--nodes", films(tmp_path)] if with_films else []
    ended = clnr("ingest", "--edges", ratings(tmp_path), *given, "--out", tmp_path / "graph", "--weight", "rating")
    assert ended.code == 2
    assert all(words in ended.err for words in ("'userId'", "'movieId'", "--edges user,NAME,movie=FILE"))
    assert not (tmp_path / "graph").exists()


def test_named_ends_are_one_kind(tmp_path):
    read = read_tables(ratings(tmp_path), films(tmp_path), source="userId", target="movieId")
    assert read.graph.num_nodes == FILMS
    assert read.ingest_report.hint == ""


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
