from __future__ import annotations

import numpy as np
import pytest

from clnr.methods import CLNR, GRACE, NCLNR
from clnr.paper import drawing, figures
from clnr.paper.exhibits import FIGURES
from clnr.paper.paper_runs.result_set import ResultSet
from clnr.paper.paper_runs.run_index import RunFilter, RunIndex
from clnr.paper.paper_runs.scope import Scope
from tests.paper.made import cache_of, made

pytest.importorskip("matplotlib")

SCOPE = Scope(seeds=2)


def results(*runs):
    return ResultSet(RunIndex(cache_of(*runs), RunFilter()), without={"physics": "no"})


def on_the_circle(seed):
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, 40)
    u = np.stack([np.cos(angle), np.sin(angle)], 1).tolist()
    return {"points": {"u": u, "v": u[::-1], "classes": [i % 4 for i in range(40)]}}


def filled():
    runs = [made(figures.circle_batch(SCOPE, method, "cora"), extra_metrics=on_the_circle(1)) for method in (CLNR, GRACE)]
    for seed in range(2):
        for method in figures.ABLATION:
            # nCLNR, dCLNR and rCLNR lie on one spot.
            runs.append(made(SCOPE.batch(method, "cora"), seed, alignment=0.2 + len(method.name.lower().strip("ndr")) / 10))
        for method in (CLNR, NCLNR):
            runs += [made(figures.dimension_batch(SCOPE, method, "photo", each), seed) for each in (64, 512)]
            runs += [made(figures.noise_batch(SCOPE, method, "pubmed", each), seed) for each in (0.0, 0.5)]
    return results(*runs)


@pytest.fixture
def shelves():
    return filled()


def test_the_circle_is_of_two_dimensions_and_all_nodes():
    batch = figures.circle_batch(Scope(), CLNR, "cora")
    assert (batch.recipe.dimension, batch.recipe.hidden, batch.recipe.sampled_nodes) == (2, 512, 0)
    assert batch.extra_metrics == {"points"}


def test_dimensions_change_the_hidden_width_too_and_512_is_the_usual_run():
    assert figures.dimension_batch(Scope(), CLNR, "cora", 64).recipe.hidden == 64
    assert figures.dimension_batch(Scope(), CLNR, "cora", 512).kind == Scope().batch(CLNR, "cora").kind


def test_no_noise_is_the_usual_run():
    assert figures.noise_batch(Scope(), CLNR, "cora", 0.0).kind == Scope().batch(CLNR, "cora").kind
    assert figures.noise_batch(Scope(), CLNR, "cora", 0.3).recipe.edge_noise == 0.3


def test_numbers_of_the_plane(shelves):
    rows = [[cell.text for cell in row] for row in figures.plane(SCOPE, shelves).rows]
    assert ["Cora", "CLNR", "0.400", "-3.000", "80.50 ± 0.50", "81.50 ± 0.50", "2"] in rows
    assert ["Physics", "CLNR", *["no data"] * 4, "0"] in rows
    assert ["Photo", "GRACE", *["not run"] * 4, "0"] in rows


def test_numbers_of_the_curves(shelves):
    rows = [[cell.text for cell in row] for row in figures.dimensions(SCOPE, shelves).rows]
    assert ["Photo", "CLNR", "strict", "80.50 ± 0.50", "not run", "not run", "80.50 ± 0.50"] in rows
    assert ["Photo", "CLNR", "paper rule", "81.50 ± 0.50", "not run", "not run", "81.50 ± 0.50"] in rows
    rows = [[cell.text for cell in row] for row in figures.noises(SCOPE, shelves).rows]
    assert ["PubMed", "nCLNR", "strict", "80.50 ± 0.50", *["not run"] * 4, "80.50 ± 0.50"] in rows


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_picture_is_drawn_of_what_there_is(figure, shelves):
    picture = figure.draw(SCOPE, shelves)
    panels = [axis for axis in picture.axes if axis.get_title()]
    assert panels
    assert all(axis.has_data() or axis.patches for axis in panels)


def test_nothing_to_draw_is_no_picture():
    empty = ResultSet(RunIndex(cache_of(), RunFilter()))
    assert [figure.draw(SCOPE, empty) for figure in FIGURES] == [None] * 4


def test_each_panel_shows_the_means(shelves):
    (panel,) = (axis for axis in drawing.noises(SCOPE, shelves).axes if axis.get_title() == "PubMed")
    lines = {line.get_label(): line.get_xydata().tolist() for line in panel.get_lines()}
    assert lines == {"nCLNR": [[0.0, 80.5], [0.5, 80.5]], "CLNR": [[0.0, 80.5], [0.5, 80.5]]}


def test_names_stand_apart_from_marks_and_each_other(shelves):
    picture = drawing.plane(SCOPE, shelves)
    picture.draw_without_rendering()
    (panel,) = (axis for axis in picture.axes if axis.get_title() == "Cora")
    boxes = [text.get_window_extent() for text in panel.texts]
    assert sorted(text.get_text() for text in panel.texts) == sorted(method.name for method in figures.ABLATION)
    overlaps = sum(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert overlaps == 0
    frame = panel.get_window_extent()
    assert all(frame.x0 < box.x0 and box.x1 < frame.x1 for box in boxes)


@pytest.mark.parametrize(("values", "top"), [([0.1, 0.2], 0.2), ([0.3, 0.1, 0.2], 0.3), ([0.1, 0.9, 0.2], 0.32), ([7], 7)])
def test_what_is_far_above_all_others_leaves_them_room(values, top):
    assert drawing._top(values) == pytest.approx(top)


def test_colours_can_be_told_apart_by_the_colour_blind():
    """By simulating the lack of one kind of cone (Viénot, Brettel and Mollon, 1999) on the curves' four colours."""
    colours = [drawing._STYLES[method.name][0] for method in figures.CURVE_METHODS]
    linear = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in colours]) ** 2.2
    to_cones = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    protan, deutan = np.eye(3), np.eye(3)
    protan[0] = [0, 2.02344, -2.52581]
    deutan[1] = [0.494207, 0, 1.24827]
    for lack in (np.eye(3), protan, deutan):
        seen = linear @ (np.linalg.inv(to_cones) @ lack @ to_cones).T
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)[np.triu_indices(len(seen), 1)]
        assert apart.min() > 0.1
    markers = [marker for _, marker in drawing._STYLES.values()]
    assert len(set(markers)) == len(markers)
