from __future__ import annotations

import numpy as np
import pytest
from reproduce.exhibits import FIGURES
from reproduce.paper_runs.scope import Scope

from clnr.methods import CLNR, GRACE, NCLNR
from reproduce import drawing, figures
from tests.reproduce.made import made, results_of

pytest.importorskip("matplotlib")

SCOPE = Scope(seeds=2)


def on_the_circle(seed):
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, 40)
    u = np.stack([np.cos(angle), np.sin(angle)], 1).tolist()
    return {"points": {"u": u, "v": u[::-1], "classes": [i % 4 for i in range(40)]}}


@pytest.fixture
def shelves():
    return filled()


def filled():
    runs = [made(figures.circle_batch(SCOPE, method, "cora"), extra_metrics=on_the_circle(1)) for method in (CLNR, GRACE)]
    for seed in range(2):
        for method in figures.ABLATION:
            # nCLNR, dCLNR and rCLNR lie on one spot.
            runs.append(made(SCOPE.batch(method, "cora"), seed, alignment=0.2 + len(method.name.lower().strip("ndr")) / 10))
        for method in (CLNR, NCLNR):
            runs += [made(figures.dimension_batch(SCOPE, method, "photo", each), seed) for each in (64, 512)]
            runs += [made(figures.noise_batch(SCOPE, method, "pubmed", each), seed) for each in (0.0, 0.5)]
    return results_of(*runs, without={"physics": "no"})


def test_what_each_figure_changes_in_the_usual_run():
    usual, circle = Scope().batch(CLNR, "cora"), figures.circle_batch(Scope(), CLNR, "cora")
    narrow, wide = (figures.dimension_batch(Scope(), CLNR, "cora", each) for each in (64, 512))
    clean, noisy = (figures.noise_batch(Scope(), CLNR, "cora", each) for each in (0.0, 0.3))
    assert (circle.recipe.dimension, circle.recipe.hidden, circle.recipe.sampled_nodes) == (2, 512, 0)
    assert circle.extra_metrics == {"points"}
    assert (narrow.recipe.dimension, narrow.recipe.hidden) == (64, 64)
    assert wide.kind == clean.kind == usual.kind
    assert noisy.recipe == usual.recipe.but(edge_noise=0.3)


def test_numbers_of_the_plane(shelves):
    rows = [[cell.text for cell in row] for row in figures.plane(SCOPE, shelves).rows]
    assert ["Cora", "CLNR", "0.400", "-3.000", "80.50 ± 0.50", "81.50 ± 0.50", "2"] in rows
    assert ["Physics", "CLNR", *["no data"] * 4, "0"] in rows
    assert ["Photo", "GRACE", *["not run"] * 4, "0"] in rows


def test_numbers_of_the_curves(shelves):
    rows = [[cell.text for cell in row] for row in figures.DIMENSION_CURVES.table(SCOPE, shelves).rows]
    assert ["Photo", "CLNR", "strict", "80.50 ± 0.50", "not run", "not run", "80.50 ± 0.50"] in rows
    assert ["Photo", "CLNR", "paper rule", "81.50 ± 0.50", "not run", "not run", "81.50 ± 0.50"] in rows
    rows = [[cell.text for cell in row] for row in figures.NOISE_CURVES.table(SCOPE, shelves).rows]
    assert ["PubMed", "nCLNR", "strict", "80.50 ± 0.50", *["not run"] * 4, "80.50 ± 0.50"] in rows


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_picture_is_drawn_of_what_there_is(figure, shelves):
    picture = figure.draw(SCOPE, shelves)
    panels = [axis for axis in picture.axes if axis.get_title()]
    assert panels
    assert all(axis.has_data() or axis.patches for axis in panels)


def test_nothing_to_draw_is_no_picture():
    assert [figure.draw(SCOPE, results_of()) for figure in FIGURES] == [None] * 4


def test_each_panel_shows_the_means(shelves):
    (panel,) = (axis for axis in drawing.curves(figures.NOISE_CURVES, SCOPE, shelves).axes if axis.get_title() == "PubMed")
    lines = {line.get_label(): line.get_xydata().tolist() for line in panel.get_lines()}
    assert lines == {"nCLNR": [[0.0, 80.5], [0.5, 80.5]], "CLNR": [[0.0, 80.5], [0.5, 80.5]]}


def test_each_method_has_a_mark_in_each_panel_and_a_name_in_the_legend(shelves):
    picture = drawing.plane(SCOPE, shelves)
    (panel,) = (axis for axis in picture.axes if axis.get_title() == "Cora")
    means = [shelves.run_index.find(SCOPE.batch(method, "cora")) for method in figures.ABLATION]
    assert [mark.get_offsets().tolist()[0] for mark in panel.collections] == [
        pytest.approx([each.mean("uniformity"), each.mean("alignment")]) for each in means
    ]
    (legend,) = picture.legends
    assert [text.get_text() for text in legend.get_texts()] == [method.name for method in figures.ABLATION]
