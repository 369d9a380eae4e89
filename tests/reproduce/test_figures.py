from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from reproduce.figures import DIMENSIONS, NOISES
from reproduce.pages import FIGURES, write_figure
from reproduce.record import Record, batch

from clnr.methods import CLNR, GRACE, NCLNR
from reproduce import figures
from tests.reproduce.made import made


def on_the_circle(seed):
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, 40)
    u = np.stack([np.cos(angle), np.sin(angle)], 1).tolist()
    return {"points": {"u": u, "v": u[::-1], "classes": [i % 4 for i in range(40)]}}


@pytest.fixture(scope="module")
def record():
    runs = [made(figures.circle_batch(method), extra_metrics=on_the_circle(1)) for method in (CLNR, GRACE)]
    for seed in range(2):
        for method in figures.ABLATION:
            # nCLNR, dCLNR and rCLNR lie on one spot.
            runs.append(made(batch(method, "cora"), seed, alignment=0.2 + len(method.name.lower().strip("ndr")) / 10))
        for method in (CLNR, NCLNR):
            runs += [made(DIMENSIONS.batch(method, "photo", each), seed) for each in (64, 512)]
            runs += [made(NOISES.batch(method, "pubmed", each), seed) for each in (0.0, 0.5)]
    return Record(runs)


def test_what_each_figure_changes_in_the_usual_run():
    usual, circle = batch(CLNR, "cora"), figures.circle_batch(CLNR)
    assert (circle.recipe.dimension, circle.recipe.hidden, circle.recipe.sampled_nodes) == (2, 512, 0)
    assert circle.extra == "points"
    narrow, wide = (DIMENSIONS.batch(CLNR, "cora", each).recipe for each in (64, 512))
    assert (narrow.dimension, narrow.hidden, wide) == (64, 64, usual.recipe)
    assert NOISES.batch(CLNR, "cora", 0.3).recipe == usual.recipe.but(edge_noise=0.3)


def test_the_same_numbers_give_the_same_files(record, tmp_path):
    for folder, number in (("one", 1), ("two", 1), ("other", 4)):
        write_figure(number, record, tmp_path / folder)
    one, two, other = (
        {path.suffix: path.read_bytes() for path in folder.iterdir()}
        for folder in (tmp_path / name for name in ("one", "two", "other"))
    )
    assert one == two
    assert one.keys() == other.keys() == {".csv", ".md", ".png", ".svg"}
    assert ElementTree.fromstring(one[".svg"]).tag.endswith("svg")
    assert "Made by `python -m reproduce figure 4`" in other[".md"].decode()
    assert max(map(len, one[".md"].decode().splitlines())) <= 120


def test_nothing_to_draw_is_no_picture(tmp_path):
    assert [draw(Record()) for _, draw in FIGURES] == [None] * 4
    write_figure(2, Record(), tmp_path)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".md"]


def test_each_panel_shows_the_means(record):
    (panel,) = (axis for axis in NOISES.draw(record).axes if axis.get_title() == "PubMed")
    lines = {line.get_label(): line.get_xydata().tolist() for line in panel.get_lines()}
    assert lines == {"nCLNR": [[0.0, 80.5], [0.5, 80.5]], "CLNR": [[0.0, 80.5], [0.5, 80.5]]}


def test_each_method_has_a_mark_in_each_panel_and_a_name_in_the_legend(record):
    picture = figures.draw_plane(record)
    (panel,) = (axis for axis in picture.axes if axis.get_title() == "Cora")
    means = [record.find(batch(method, "cora"))[0] for method in figures.ABLATION]
    marks = [mark.get_offsets().tolist()[0] for mark in panel.collections]
    assert marks == [pytest.approx([each.uniformity, each.alignment]) for each in means]
    (legend,) = picture.legends
    assert [text.get_text() for text in legend.get_texts()] == [method.name for method in figures.ABLATION]
