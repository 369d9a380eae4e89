"""Small graphs as tables, always the same, in groups that vectors can find."""

from __future__ import annotations

import csv
import datetime
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NODES, GROUPS, ITEMS = 240, 4, 120
DAY = datetime.date(2019, 1, 1)
COLUMNS = "age income joined city about member"
CITIES = ("Oslo", "Bonn", "Lima", "Kyiv", "Bern")
WORDS = ("graph", "river", "stone", "music", "garden", "engine", "winter", "harbour", "signal", "boat", "sky")


def write(path: Path, header: str, rows: Iterable[Iterable[Any]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(), *rows])


def ends(draw: random.Random, count: int, others: int, edges: int) -> Iterable[tuple[int, int]]:
    """Edges mostly within groups, the remainders of nodes; more lead to the first of a group."""
    for _ in range(edges):
        source, place = int(draw.random() * count), int(draw.random() * draw.random() * (others // GROUPS))
        group = source % GROUPS if draw.random() < 0.85 else int(draw.random() * GROUPS)
        yield source, place * GROUPS + group


def columns_of(draw: random.Random, node: int) -> list[Any]:
    """Numbers, times, text, a category and missing values, which all tell a little of the group of a node."""
    group, some = node % GROUPS, draw.random
    age = "" if some() < 0.1 else round(20 + 9 * group + 12 * some(), 1)
    income = "" if some() < 0.25 else int(900 * (1 + group) * some() * (0.2 + some()))
    joined = "" if some() < 0.1 else DAY + datetime.timedelta(int(200 * group + 500 * some()))
    city = "" if some() < 0.1 else CITIES[(group + int(some() * some() * 5)) % 5]
    words = [WORDS[(3 * group + int(some() * some() * 11)) % 11] for _ in range(int(some() * 12))]
    return [age, income, joined, city, " ".join(words), some() < 0.2 + group / 5]


def people(folder: Path) -> None:
    """Directed edges with weights, some loops or repeated; nodes without a row, or without an edge."""
    draw = random.Random(1)
    linked = [(a, b, round(0.2 + 3 * draw.random(), 2)) for a, b in ends(draw, NODES - 6, NODES - 6, 1100)]
    loops = [(node, node, 2.5) for node in range(0, NODES, 31)]
    write(folder / "e.csv", "source target weight", [*linked, *loops, *linked[:40]])
    groups = ["" if node % 9 == 0 else "abcd"[node % GROUPS] for node in range(NODES)]
    rows = [[node, *columns_of(draw, node), groups[node]] for node in range(NODES) if node % 37 != 5]
    write(folder / "n.csv", f"id {COLUMNS} group", rows)
    later = [(a + NODES, b, round(0.2 + draw.random(), 2)) for a, b in ends(draw, 30, NODES, 150)]
    write(folder / "later-e.csv", "source target weight", later)
    among = [(a + NODES, b + NODES, 1) for a, b in ends(draw, 30, 30, 120)]
    write(folder / "alone-e.csv", "source target weight", among)
    unseen = [[node, *columns_of(draw, node)] for node in range(NODES, NODES + 30)]
    write(folder / "later-n.csv", f"id {COLUMNS}", unseen)


def shop(folder: Path) -> None:
    """Two kinds of nodes, and two of edges."""
    draw = random.Random(2)
    bought = [(f"u{a}", b, 1 + int(4 * draw.random())) for a, b in ends(draw, NODES, ITEMS, 1000)]
    write(folder / "bought.csv", "user item count", bought)
    write(folder / "knows.csv", "from to", [(f"u{a}", f"u{b}") for a, b in ends(draw, NODES, NODES, 500)])
    users = [[f"u{node}", *columns_of(draw, node)] for node in range(NODES)]
    write(folder / "users.csv", f"user {COLUMNS}", users)
    prices = (round(5 + 20 * (item % GROUPS) + 30 * draw.random(), 2) for item in range(ITEMS))
    items = [(item, price, "xyz"[item % 3]) for item, price in enumerate(prices)]
    write(folder / "items.csv", "item price shelf", items)


def calls(folder: Path) -> None:
    """Edges alone, of two kinds, each on a day."""
    draw, rows = random.Random(3), {"calls": [], "texts": []}
    for a, b in ends(draw, NODES, NODES, 1200):
        how = "texts" if draw.random() < 0.3 else "calls"
        rows[how].append((f"p{a}", f"p{b}", DAY + datetime.timedelta(int(300 * draw.random()))))
    for how, of_kind in rows.items():
        write(folder / f"{how}.csv", "from to day", of_kind)
