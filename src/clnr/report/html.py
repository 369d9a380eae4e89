"""A report as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template

import numpy as np

from clnr.report.content import Array, ComparisonTable, ReportData, Score, check

_LONG_CHARACTERS = 40
_SCRIPTS = ("data", "colours", "view", "draw", "marks", "panel", "search", "curves", "page")


def render_html(data: ReportData) -> str:
    """The whole HTML file; the same data gives the same text.

    Ids and names are untrusted input: they are always escaped, and the content security policy allows only the report's own
    script, loads nothing, and keeps text from becoming markup.

    Raises:
        DataError: If sizes or values of the data are inconsistent.
    """
    check(data)
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
        layout=_text(data.layout),
        scores="\n".join(map(_score, data.scores)),
        remarks="\n".join(f'<li dir="auto">{_text(note)}</li>' for note in data.notes),
        sections="\n".join([*_comparison(data.comparison), *(_section(name, facts) for name, facts in data.sections)]),
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
        {"name": curve.name, "values": [float(value) if math.isfinite(value) else None for value in curve.values]}
        for curve in data.curves
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
