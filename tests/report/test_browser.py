"""The page as a reader uses it, in a real browser."""

from __future__ import annotations

import numpy as np
import pytest

from clnr.report import Column
from tests.report.browser import SMALL, at, centre, go_to, pixels, selected, settled, texts, until
from tests.report.made import bare, report_data

pytestmark = pytest.mark.full


def test_it_opens_from_disk_and_shows_its_data_and_the_values_of_a_curve(show):
    tab = show(report_data())
    assert tab.title() == "A small graph"
    assert tab.inner_text("h1") == "A small graph"
    assert texts(tab, "#remarks li") == ["A sentence that a reader must see."]
    assert texts(tab, "#facts th") == ["nodes", "edges", "accuracy"]
    assert texts(tab, "#facts td")[::2] == ["60", "84.2 %"]
    assert tab.evaluate("[clnr.renderer, clnr.count]") == ["webgl", 60]
    assert "0.04 at epoch 50" in tab.inner_text(".curve")
    assert {"epoch", "1", "2", "20", "40"} <= set(texts(tab, ".curve text"))
    # A curve tells its values under the pointer.
    box = tab.locator(".chart").bounding_box()
    tab.mouse.move(box["x"] + 46 / 320 * box["width"] + 1, box["y"] + 20)
    assert "2 at epoch 1" in tab.inner_text(".curve")


def test_search_finds_by_any_part_and_enter_goes_to_the_first(show):
    tab = show(report_data())
    tab.keyboard.press("/")
    tab.keyboard.type("E-5")
    assert texts(tab, "#matches li") == ["node-5", *(f"node-{i}" for i in range(50, 60))]
    tab.keyboard.press("Enter")
    settled(tab)
    assert selected(tab) == 5
    assert at(tab, 5) == pytest.approx(centre(tab), abs=1)
    assert tab.inner_text("#chosen") == "node-5"
    assert tab.locator("#found").is_hidden()
    # It says how many there are, and moves by arrows.
    tab.fill("#query", "node")
    assert len(texts(tab, "#matches li")) == 12
    assert tab.inner_text("#count") == "60 nodes have this in their id"
    tab.press("#query", "ArrowDown")
    tab.press("#query", "ArrowDown")
    tab.press("#query", "Enter")
    assert selected(tab) == 2
    tab.fill("#query", "nothing like it")
    assert tab.inner_text("#count") == "No node has this in its id"
    tab.press("#query", "Enter")
    assert selected(tab) == 2
    tab.fill("#query", "node-17")
    tab.click("#matches li")
    assert selected(tab) == 17


@pytest.mark.parametrize("webgl", [True, False])
def test_a_click_on_a_node_shows_its_neighbours(show, webgl):
    data = report_data()
    tab = show(data, webgl=webgl)
    assert tab.evaluate("clnr.renderer") == ("webgl" if webgl else "canvas")
    for i in (7, 31, len(data.ids) - 1):
        tab.mouse.click(*at(tab, i))
        near = data.near[i]
        linked = data.links[data.start[i] : data.start[i + 1]]
        assert selected(tab) == i
        assert texts(tab, "#nearest bdi") == [data.ids[other] for other in near]
        assert texts(tab, "#nearest .cosine") == [f"{cosine:.3f}" for cosine in data.closeness[i]]
        assert texts(tab, "#neighbours bdi") == [data.ids[other] for other in linked]
        both = [data.ids[other] for other in near if other in linked]
        assert texts(tab, "#nearest button:has(.also) bdi") == both
        assert sorted(texts(tab, "#neighbours button:has(.also) bdi")) == sorted(both)
        assert f"{len(both)} of these 4" in tab.inner_text("#panel")
    assert "None on the map." in tab.inner_text("#panel")
    # Values of all columns are shown; of many neighbours fifty, and how many there are.
    tab.mouse.click(*at(tab, 0))
    assert texts(tab, "#panel th") == ["kind", "year", "degree", "many"]
    assert texts(tab, "#panel td") == ["missing", "missing", "58", "group 0"]
    total = int(data.start[1])
    assert len(texts(tab, "#neighbours li")) == 50 < total
    assert f"The first 50 of {total} are shown." in tab.inner_text("#panel")
    assert f"{total} on the map" in tab.inner_text("#panel")
    tab.mouse.click(*at(tab, 32))
    assert texts(tab, "#panel td")[:2] == ["blue", "1992"]


def test_nodes_are_found_and_shown_by_their_names_with_their_ids(show):
    names = [f"Page {i}" for i in range(60)]
    names[5], names[6], names[7] = "The Obama White House", "Obama", ""
    data = report_data(names=names)
    tab = show(data)
    assert tab.get_attribute("#query", "placeholder") == "Find a node by its name or id"
    tab.fill("#query", "OBAMA")
    assert texts(tab, "#matches li") == ["Obama node-6", "The Obama White House node-5"]
    tab.fill("#query", "page")
    assert tab.inner_text("#count") == "57 nodes have this in their name or id"
    tab.fill("#query", "node-7")
    assert texts(tab, "#matches li") == ["node-7"]
    go_to(tab, "white house")
    assert selected(tab) == 5
    assert tab.input_value("#query") == "The Obama White House"
    assert tab.inner_text("#chosen") == "The Obama White House"
    assert "id node-5" in tab.inner_text("#panel")
    shown = [f"{names[i]} {data.ids[i]}" if names[i] else data.ids[i] for i in range(60)]
    assert texts(tab, "#nearest .called") == [shown[other] for other in data.near[5]]
    assert texts(tab, "#neighbours .called") == [shown[other] for other in data.links[data.start[5] : data.start[6]]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [{"width": 1280}, SMALL], ids=["wide", "phone"])
def test_clusters_are_listed_and_free_text_is_no_colour(show, size, scheme):
    clusters = [
        (f"{i}: baker, bread", ["20 nodes, typical: " + "a-long-name " * 9, "trade 'baker' 40% (0%)"]) for i in range(3)
    ]
    words = Column("words", np.arange(60, dtype=np.int32), tuple(f"word {i}" for i in range(60)))
    tab = show(report_data(clusters=clusters, columns=[*report_data().columns, words]), color_scheme=scheme, **size)
    assert texts(tab, "#clusters b") == [title for title, _ in clusters]
    assert texts(tab, "#clusters p") == [line for _, lines in clusters for line in lines]
    assert texts(tab, "#colour option") == ["kind", "year", "degree", "many", "nothing"]
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # What a node is in the column is still told.
    go_to(tab, "node-7")
    assert texts(tab, "#panel th")[-1] == "words"
    named = show(report_data(columns=[words, *report_data().columns]), **size)
    assert texts(named, "#colour option")[0] == "words"


def test_a_neighbour_can_be_clicked_to_go_on(show):
    data = report_data()
    tab = show(data)
    tab.mouse.click(*at(tab, 7))
    tab.click("#nearest li:nth-child(2) button")
    settled(tab)
    after = int(data.near[7, 1])
    assert selected(tab) == after
    assert at(tab, after) == pytest.approx(centre(tab), abs=1)
    tab.click("#neighbours li button")
    assert selected(tab) == data.links[data.start[after]]


def test_hover_tells_the_id_and_each_column_has_its_legend(show):
    tab = show(report_data(names=[f"Page {i}" for i in range(60)]))
    tab.mouse.move(*at(tab, 11))
    assert tab.inner_text("#tip").split("\n") == ["Page 11", "node-11", "blue"]
    tab.mouse.move(2, 2)
    assert tab.locator("#tip").is_hidden()
    assert texts(tab, "#legend .kind") == ["red18", "green18", "blue18", "missing6"]
    tab.select_option("#colour", label="year")
    assert texts(tab, "#legend .end") == ["1990", "2019"]
    assert texts(tab, "#legend .kind") == ["missing9"]
    tab.select_option("#colour", label="degree")
    assert texts(tab, "#legend .end")[0] == "0"
    tab.select_option("#colour", label="many")
    kinds = texts(tab, "#legend .kind")
    assert len(kinds) == 12
    assert kinds[-1] == "other (9 more)27"
    colours = {tab.evaluate("i => clnr.colour(i)", i) for i in range(20)}
    assert len(colours) == 12
    tab.select_option("#colour", label="nothing")
    assert tab.locator("#legend").is_hidden()
    assert len({tab.evaluate("i => clnr.colour(i)", i) for i in range(20)}) == 1
    # A far outlier does not take all the scale.
    values = np.linspace(0, 1, 600, dtype=np.float32)
    values[-1] = 1e6
    tab = show(bare(600, columns=[Column("x", values)]))
    assert texts(tab, "#legend .end") == ["0", "≥ 0.99"]


@pytest.mark.parametrize("webgl", [True, False])
def test_nodes_are_drawn_where_they_are_in_the_colours_of_the_legend(show, webgl):
    far = np.array([[0, 0], [10, 0], [0, 10], [10, 10], [5, 5]], np.float32)
    codes = np.array([0, 1, 2, -1, 1], np.int32)
    tab = show(bare(5, points=far, columns=[Column("kind", codes, ("a", "b", "c"))]), webgl=webgl)
    box = tab.locator("#map").bounding_box()
    seen = pixels(tab)
    drawn = []
    for i in range(5):
        x, y = at(tab, i)
        wanted = tab.evaluate("i => clnr.colour(i)", i)
        rgb = np.array([int(wanted[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        got = seen[round(y - box["y"]), round(x - box["x"])]
        # A little of the background shows through.
        np.testing.assert_allclose(got, rgb, atol=0.12)
        drawn.append(wanted)
    assert drawn[1] == drawn[4]
    assert len(set(drawn)) == 4
    assert (seen > 0.98).all(axis=2).mean() > 0.9


def test_a_kind_of_the_legend_can_be_seen_alone(show):
    data = report_data()
    tab = show(data)
    before = pixels(tab)
    tab.click("#legend .kind >> nth=1")
    tab.click("#home")
    settled(tab)
    assert tab.get_attribute("#legend .kind >> nth=1", "aria-pressed") == "true"
    assert (pixels(tab) < 0.7).any(axis=2).sum() < (before < 0.7).any(axis=2).sum() / 2
    tab.mouse.move(*at(tab, 2))
    assert tab.evaluate("clnr.hover()") != 2
    tab.click("#legend .kind >> nth=1")
    tab.mouse.move(*at(tab, 2))
    assert tab.evaluate("clnr.hover()") == 2


def test_wheel_zooms_about_the_pointer_and_dragging_pans(show):
    tab = show(report_data())
    home = tab.evaluate("clnr.view()")
    x, y = at(tab, 3)
    tab.mouse.move(x, y)
    tab.mouse.wheel(0, -240)
    until(tab, "k => clnr.view().k > 1.2 * k", home["k"])
    settled(tab)
    # A wheel's place is told in whole pixels.
    assert at(tab, 3) == pytest.approx([x, y], abs=1)
    x, y = at(tab, 3)
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 40, y + 10)
    tab.mouse.move(x + 60, y - 30)
    tab.mouse.up()
    assert at(tab, 3) == pytest.approx([x + 60, y - 30], abs=0.5)
    assert selected(tab) == -1
    tab.click("#home")
    settled(tab)
    assert tab.evaluate("clnr.view()") == pytest.approx(home)


def test_picking_agrees_with_looking_at_every_node(show):
    data = report_data(400, near=2)
    tab = show(data)
    places = np.array(tab.evaluate("Array.from({length: clnr.count}, (_, i) => clnr.screen(i))"))
    box = tab.locator("#map").bounding_box()
    random = np.random.default_rng(1)
    probes = random.random((300, 2)) * [box["width"], box["height"]]
    probes[:150] = places[:150] - [box["x"], box["y"]] + random.normal(0, 4, (150, 2))
    away = np.linalg.norm(probes[:, None] + [box["x"], box["y"]] - places[None], axis=2)
    wanted = np.where(away.min(axis=1) <= 9, away.argmin(axis=1), -1)
    got = tab.evaluate("probes => probes.map(([x, y]) => clnr.pick(x, y))", probes.tolist())
    np.testing.assert_array_equal(got, wanted)
    assert (wanted >= 0).sum() > 100
