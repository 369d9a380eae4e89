"""What a report shows, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clnr.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Column:
    """A node attribute that the map can be coloured by.

    Attributes:
        name: Shown to the reader.
        values: One float per node, NaN where missing; or one category code (an integer) per node, -1 where missing.
        names: The name of each category; empty for a column of numbers.
    """

    name: str
    values: Array
    names: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        return self.values.dtype.kind == "f"


@dataclass(frozen=True)
class Curve:
    """One value per epoch, such as the loss."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True)
class Score:
    """A score that a reader sees first.

    Attributes:
        name: A word or two.
        value: As text.
        meaning: Goes on from the value, in a few words.
        verdict: ``good``, ``fair`` or ``poor``; "" for none.
    """

    name: str
    value: str
    meaning: str
    verdict: str = ""


VERDICTS = ("", "good", "fair", "poor")


@dataclass(frozen=True)
class ComparisonTable:
    """A small table whose rows are compared with each other.

    Attributes:
        name: The heading.
        headings: Of the columns; the first is that of the rows' names.
        rows: A name and values each.
        note: One sentence below it.
    """

    name: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str


@dataclass(frozen=True)
class ReportData:
    """All that the page shows; nodes are those on the map, known by their places among them.

    Attributes:
        title: One line.
        sections: Tables of facts: a heading, then names and values.
        notes: Sentences that a reader must see.
        curves: Drawn one below the other.
        ids: Of the nodes.
        points: Where each node lies on the map, of shape [n, 2].
        columns: What the map can be coloured by; the first is what it opens with.
        near: The nearest of each node in the embedding, of shape [n, k], -1 where there is none.
        closeness: Their cosines.
        start: Where each node's neighbours in the graph begin among ``links``, of n + 1 numbers.
        links: Neighbours in the graph.
        names: What each node is called beside its id, "" where it has no name; empty where no node has one.
        comparison: Shown above the sections; None for none.
        scores: Shown above all.
        layout: How points were placed: a word that the file tells in its head.
    """

    title: str
    sections: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    notes: Sequence[str]
    curves: Sequence[Curve]
    ids: Sequence[str]
    points: Array
    columns: Sequence[Column]
    near: Array
    closeness: Array
    start: Array
    links: Array
    names: Sequence[str] = ()
    comparison: ComparisonTable | None = None
    scores: Sequence[Score] = ()
    layout: str = ""


def check(data: ReportData) -> None:
    """Raise DataError if sizes or values are inconsistent."""
    count = len(data.ids)
    _require(data.points.shape == (count, 2), f"points must be {count} by 2, not of shape {data.points.shape}")
    _require(bool(np.isfinite(data.points).all()), "points must be finite")
    _require(len(data.names) in (0, count), f"names must be {count} long, not {len(data.names)}")
    shape = data.near.shape
    _require(len(shape) == 2 and shape[0] == count, f"near must have {count} rows, not shape {shape}")
    _require(data.closeness.shape == shape, f"near has shape {shape} but closeness {data.closeness.shape}")
    _require(data.start.shape == (count + 1,), f"start must be {count + 1} long, not of shape {data.start.shape}")
    rising = data.start[0] == 0 and data.start[-1] == len(data.links) and bool((np.diff(data.start) >= 0).all())
    _require(rising, f"start must rise from 0 to {len(data.links)}, the number of links")
    if data.comparison is not None:
        widths = {len(row) for row in (data.comparison.headings, *data.comparison.rows)}
        _require(len(widths) == 1, f"rows of the comparison must be of one length, not {sorted(widths)}")
    for score in data.scores:
        _require(score.verdict in VERDICTS, f"a verdict must be one of {VERDICTS}, not {score.verdict!r}")
    _within(data.near, -1, count, "near")
    _within(data.links, 0, count, "links")
    for column in data.columns:
        what = f"column '{column.name}'"
        _require(column.values.shape == (count,), f"{what} must be {count} long, not of shape {column.values.shape}")
        if not column.is_number:
            _within(column.values, -1, len(column.names), what)


def _within(values: Array, low: int, high: int, what: str) -> None:
    fits = values.dtype.kind in "iu" and (not values.size or (values.min() >= low and values.max() < high))
    _require(bool(fits), f"{what} must be whole numbers from {low} to {high - 1}")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DataError(otherwise)
