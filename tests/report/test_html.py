from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest

from clnr.errors import DataError
from clnr.report import Column, ComparisonTable, Score, render_html
from tests.report.made import HOSTILE, bare, large, report_data


class Parts(HTMLParser):
    """Every element's attributes and the text of scripts and styles, as a browser would part them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.held, self._open = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._open = dict(attributes).get("id", tag)
        self.held.setdefault(self._open, "")

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open:
            self.held[self._open] += data


def decoded(parts, name, kind):
    return np.frombuffer(base64.b64decode(parts.held.get(name, "")), kind)


def test_data_decodes_to_the_arrays_of_the_report():
    data = report_data()
    parts = Parts(render_html(data))
    for name, kind in (("points", "<f4"), ("near", "<i4"), ("closeness", "<f4"), ("start", "<u4"), ("links", "<i4")):
        array = getattr(data, name)
        np.testing.assert_array_equal(decoded(parts, name, kind).reshape(array.shape), array)
    for place, column in enumerate(data.columns):
        np.testing.assert_array_equal(decoded(parts, f"column-{place}", "<f4" if not column.names else "<i4"), column.values)
    words = json.loads(parts.held["words"])
    assert words["ids"] == data.ids
    columns = {row["name"]: row["number"] for row in words["columns"]}
    assert columns == {"kind": False, "year": True, "degree": True, "many": False}
    assert words["curves"] == [{"name": "loss", "values": [2.0 / (1 + epoch) for epoch in range(50)]}]


def test_arrays_of_any_layout_and_byte_order_are_written_little_endian():
    data = report_data()
    turned = replace(
        data, points=np.asfortranarray(data.points.astype(">f8")), near=data.near.astype(">i8"), links=data.links.astype(">i2")
    )
    assert render_html(turned) == render_html(data)


def test_what_strangers_wrote_stays_text():
    title = "".join(HOSTILE[:6]) + "& <b>"
    data = bare(
        len(HOSTILE),
        title=title,
        sections=[(name, [(name, name)]) for name in HOSTILE],
        notes=HOSTILE,
        notices=HOSTILE,
        curves=[(name, [1.0]) for name in HOSTILE],
        ids=HOSTILE,
        names=HOSTILE[::-1],
        columns=[Column(HOSTILE[0], np.arange(len(HOSTILE), dtype=np.int32), HOSTILE)],
        comparison=ComparisonTable(HOSTILE[0], HOSTILE, [HOSTILE], HOSTILE[1]),
        scores=[Score(name, name, name) for name in HOSTILE],
        clusters=[(name, HOSTILE) for name in HOSTILE],
    )
    text = render_html(data)
    text.encode("utf-8")
    parts = Parts(text)
    tags = [tag for tag, _ in parts.tags]
    assert tags.count("script") == 8
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attributes in parts.tags for name in attributes)
    words = json.loads(parts.held["words"])
    assert words["ids"] == list(HOSTILE)
    assert words["names"] == list(HOSTILE[::-1])
    assert words["columns"][0]["names"] == list(HOSTILE)
    assert parts.held["title"] == title
    assert html.escape(HOSTILE[1]) in text
    plain = ["x"] * len(HOSTILE)
    assert text.count("<") == render_html(replace(data, ids=plain, names=plain)).count("<")


def luminance(colour):
    """As WCAG 2.1 defines it."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels)
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_stand_out_from_the_background_in_light_and_dark():
    css, script = (files("clnr.report").joinpath(name).read_text() for name in ("page.css", "colours.js"))
    declared = re.findall(r"--(\w+): (#[0-9a-f]{6});", css)
    half = len(declared) // 2
    schemes = {"light": dict(declared[:half]), "dark": dict(declared[half:])}
    assert schemes["light"].keys() == schemes["dark"].keys()
    for name, colours in schemes.items():
        for text in ("ink", "soft", "accent", "good", "fair", "poor"):
            assert contrast(colours[text], colours["card"]) >= 4.5, (name, text)
        for back in ("back", "wash"):
            assert contrast(colours["soft"], colours[back]) >= 4.5, (name, back)
        assert contrast(colours["ink"], colours["warm"]) >= 4.5
        (palette,) = re.findall(rf"{name}: \[(.*?)\]", script)[:1]
        (other,) = re.findall(rf"OTHER = {{.*?{name}: (\S+?)[, ]", script)
        points = re.findall("#[0-9a-f]{6}", palette + other)
        assert len(set(points)) == 13
        for colour in points:
            assert contrast(colour, colours["card"]) >= 3, (name, colour)


def test_the_policy_names_the_only_script_and_style_and_nothing_else():
    text = render_html(report_data())
    parts = Parts(text)
    (policy,) = (attributes["content"] for _, attributes in parts.tags if "http-equiv" in attributes)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        (body,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert rules[rule] == f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules.keys() - {"default-src", "script-src", "style-src", "base-uri", "form-action"} == {
        "require-trusted-types-for",
        "trusted-types",
    }
    # Nothing refers elsewhere, and no text becomes markup.
    namespace = "http://www.w3.org/2000/svg"
    assert not re.search(r"https?://", text.replace(namespace, ""))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|@import|url\(", text)
    assert not {"src", "href", "style"} & {name for _, attributes in parts.tags for name in attributes}


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_report_of_nearly_nothing_is_written_and_a_loss_that_is_not_finite_is_a_gap(n):
    parts = Parts(render_html(bare(n, curves=[("loss", [1.0, float("nan"), float("inf"), np.float32(0.5)])])))
    words = json.loads(parts.held["words"])
    assert len(words["ids"]) == n
    assert words["curves"][0]["values"] == [1.0, None, None, 0.5]
    assert len(decoded(parts, "start", "<u4")) == n + 1


def test_points_that_a_layout_failed_to_place_are_refused():
    with pytest.raises(DataError, match="points of the map must be finite"):
        render_html(replace(report_data(), points=np.full((60, 2), np.nan, np.float32)))


def test_a_hundred_thousand_nodes_take_what_their_numbers_take():
    data = large()
    arrays = (data.points, data.near, data.closeness, data.links, *(column.values for column in data.columns))
    numbers = sum(array.nbytes for array in arrays) + 4 * len(data.start)
    words = sum(len(name) + 3 for name in data.ids)
    assert len(render_html(data).encode()) < numbers * 4 / 3 + words + 100_000
