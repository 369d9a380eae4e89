"""A story as one HTML file."""

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

from clnr.graph.csr import Array
from clnr.report.content import Curve, ReportData, check

_LONG = 40
_SCRIPTS = ("data", "colours", "view", "draw", "marks", "panel", "search", "curves", "page")


def page(story: ReportData) -> str:
    """The whole HTML; the same story gives the same text.

    Ids and names may be a stranger's: they are text everywhere, and the page's policy runs no script but its own, loads
    nothing, and lets no text become markup.

    Raises:
        DataError: If the parts of the story do not fit together.
    """
    check(story)
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
        title=_text(story.title),
        remarks="\n".join(f'<li dir="auto">{_text(remark)}</li>' for remark in story.remarks),
        sections="\n".join(_section(name, facts) for name, facts in story.sections),
        data="\n".join(_data(story)),
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _section(name: str, facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<tr>{_key(key)}{_value(value)}</tr>" for key, value in facts)
    return f'<section class="card"><h2 dir="auto">{_text(name)}</h2><table>{rows}</table></section>'


def _key(text: str) -> str:
    """A name, which may go on in a new line where one of its words ends."""
    return f'<th scope="row" dir="auto">{_text(text).replace("_", "_<wbr>")}</th>'


def _value(text: str) -> str:
    long = ' class="long"' if len(text) > _LONG else ""
    return f'<td dir="auto"{long}>{_text(text)}</td>'


def _data(story: ReportData) -> Iterator[str]:
    columns = [{"name": column.name, "number": column.is_number, "names": list(column.names)} for column in story.columns]
    curves = [_curve(curve) for curve in story.curves]
    words = {"ids": list(story.ids), "names": list(story.names), "columns": columns, "curves": curves}
    text = json.dumps(words, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Escapes that JSON knows: no tag can begin, and half a pair, which UTF-8 cannot hold, comes through.
    text = re.sub("[<\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
    yield f'<script type="application/json" id="words">{text}</script>'
    yield _binary("points", story.points, "<f4")
    for place, column in enumerate(story.columns):
        yield _binary(f"column-{place}", column.values, "<f4" if column.is_number else "<i4")
    yield _binary("near", story.near, "<i4")
    yield _binary("closeness", story.closeness, "<f4")
    yield _binary("start", story.start, "<u4")
    yield _binary("links", story.links, "<i4")


def _curve(curve: Curve) -> dict[str, object]:
    return {"name": curve.name, "values": [float(value) if math.isfinite(value) else None for value in curve.values]}


def _binary(name: str, values: Array, kind: str) -> str:
    coded = base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()
    return f'<script type="application/octet-stream" id="{name}">{coded}</script>'


def _text(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())
