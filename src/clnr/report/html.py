"""A report: what it shows, as values, and as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import starmap
from string import Template
from typing import Any

import numpy as np

from clnr.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]

_LONG_CHARACTERS = 40
_SCRIPTS = ("data", "colours", "view", "draw", "marks", "panel", "search", "curves", "page")


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
class Score:
    """A score that a reader sees first.

    ``meaning`` goes on from the value, in a few words; the verdict is ``good``, ``fair``, ``poor`` or "" for none.
    """

    name: str
    value: str
    meaning: str
    verdict: str = ""


@dataclass(frozen=True)
class ComparisonTable:
    """A small table whose rows are compared with each other.

    The first heading is that of the rows' names; the note is one sentence below the table.
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
        curves: Drawn one below the other: a name, such as the loss, and one value per epoch.
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
        clusters: A title, and lines below it, of each cluster.
        notices: Sentences below the notes that are no warnings.
    """

    title: str
    sections: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    notes: Sequence[str]
    curves: Sequence[tuple[str, Sequence[float]]]
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
    clusters: Sequence[tuple[str, Sequence[str]]] = ()
    notices: Sequence[str] = ()


def render_html(data: ReportData) -> str:
    """The whole HTML file; the same data gives the same text.

    Ids and names are untrusted input: they are always escaped, and the content security policy allows only the report's own
    script, loads nothing, and keeps text from becoming markup.

    Raises:
        DataError: If a point is not finite, where the map has failed.
    """
    if not np.isfinite(data.points).all():
        raise DataError("points of the map must be finite")
    style = _part("page.css")
    script = "(() => {\n'use strict';\n" + "\n".join(_part(f"{name}.js") for name in _SCRIPTS) + "})();\n"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Template(_part("page.html")).substitute(
        policy=policy,
        style=style,
        script=script,
        title=_text(data.title),
        scores="\n".join(map(_score, data.scores)),
        remarks="\n".join([*(f'<li dir="auto">{_text(note)}</li>' for note in data.notes), *_notices(data.notices)]),
        sections="\n".join([*_comparison(data.comparison), *_clusters(data.clusters), *starmap(_section, data.sections)]),
        data="\n".join(_data(data)),
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _score(score: Score) -> str:
    verdict = f' <span class="verdict">{score.verdict}</span>' if score.verdict else ""
    said = f'<b>{_text(score.value)}</b> <span class="what">{_text(score.name)}</span>{verdict}'
    return f'<li class="card {score.verdict}"><p>{said}</p><p class="note" dir="auto">{_text(score.meaning)}</p></li>'


def _section(name: str, facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<tr>{_key(key)}{_value(value)}</tr>" for key, value in facts)
    return f'<section class="card"><h2 dir="auto">{_text(name)}</h2><table>{rows}</table></section>'


def _comparison(table: ComparisonTable | None) -> Iterator[str]:
    if table is None:
        return
    headings = "".join(f'<th scope="col" dir="auto">{_text(each)}</th>' for each in table.headings)
    rows = "".join(f"<tr>{_key(name)}{''.join(_value(each) for each in values)}</tr>" for name, *values in table.rows)
    yield (
        f'<section class="card"><h2 dir="auto">{_text(table.name)}</h2>'
        f'<table class="compared"><tr>{headings}</tr>{rows}</table><p class="note" dir="auto">{_text(table.note)}</p></section>'
    )


def _notices(lines: Sequence[str]) -> Iterator[str]:
    """Lines that a click shows."""
    if lines:
        shown = "".join(f'<p dir="auto">{_text(line)}</p>' for line in lines)
        yield f'<li class="notice"><details><summary>Notes ({len(lines)})</summary>{shown}</details></li>'


def _clusters(clusters: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    if clusters:
        texts = ((_text(title), "".join(f'<p class="note">{_text(line)}</p>' for line in lines)) for title, lines in clusters)
        listed = "".join(f'<li dir="auto"><b>{title}</b>{lines}</li>' for title, lines in texts)
        yield f'<section class="card" id="clusters"><h2>Clusters</h2><ol>{listed}</ol></section>'


def _key(text: str) -> str:
    """A name, which may wrap after an underscore."""
    return f'<th scope="row" dir="auto">{_text(text).replace("_", "_<wbr>")}</th>'


def _value(text: str) -> str:
    long = ' class="long"' if len(text) > _LONG_CHARACTERS else ""
    return f'<td dir="auto"{long}>{_text(text)}</td>'


def _data(data: ReportData) -> Iterator[str]:
    columns = [{"name": column.name, "number": column.is_number, "names": list(column.names)} for column in data.columns]
    # What is not finite is a gap.
    curves = [
        {"name": name, "values": [float(value) if math.isfinite(value) else None for value in values]}
        for name, values in data.curves
    ]
    words = {"ids": list(data.ids), "names": list(data.names), "columns": columns, "curves": curves}
    text = json.dumps(words, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # JSON escapes: no tag can begin, and lone surrogates, which UTF-8 cannot hold, come through.
    text = re.sub("[<\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
    yield f'<script type="application/json" id="words">{text}</script>'
    yield _binary("points", data.points, "<f4")
    for place, column in enumerate(data.columns):
        yield _binary(f"column-{place}", column.values, "<f4" if column.is_number else "<i4")
    yield _binary("near", data.near, "<i4")
    yield _binary("closeness", data.closeness, "<f4")
    yield _binary("start", data.start, "<u4")
    yield _binary("links", data.links, "<i4")


def _binary(name: str, values: Array, kind: str) -> str:
    coded = base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()
    return f'<script type="application/octet-stream" id="{name}">{coded}</script>'


def _text(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())
