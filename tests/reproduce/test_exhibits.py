from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from reproduce.exhibits import EXHIBITS, FIGURES, TABLES, needs
from reproduce.paper_runs.scope import SETS, Scope

from tests.reproduce.made import results_of
from tests.reproduce.test_figures import filled

pytest.importorskip("matplotlib")

SCOPE = Scope(seeds=2)


def test_cheap_methods_of_the_paper_are_wanted_first_and_what_it_has_not_last():
    batches = needs(EXHIBITS, Scope())
    assert batches[0].dataset == "cora"
    beside = {"Raw", "Untrained", "VGAE", "MVGRL-plain", "GRACE-all", "GCA"}
    extra = [batch.method.name in beside for batch in batches]
    assert extra == sorted(extra)
    assert any(extra)
    names = {batch.dataset for batch in batches}
    assert names == set(SETS)


@pytest.mark.parametrize(
    "exhibit", [pytest.param(each, id=each.name, marks=[pytest.mark.full] * (each in FIGURES)) for each in EXHIBITS]
)
def test_every_form_is_written_and_names_the_command(exhibit, tmp_path):
    results = filled()
    results.without.update(dict.fromkeys(SETS, "no"))
    written = exhibit.write(SCOPE, results, tmp_path / "deep" / "down")
    ends = sorted(path.suffix for path in written)
    assert ends == [".csv", ".md", ".tex"] if exhibit in TABLES else [".csv", ".md", ".png", ".svg", ".tex"]
    texts = {path.suffix: path.read_bytes() for path in written}
    command = f"clnr {exhibit.name.replace('-', ' ')} --seeds 2"
    assert f"Made by `{command}`" in texts[".md"].decode()
    assert max(map(len, texts[".md"].decode().splitlines())) <= 120
    assert texts[".tex"].decode().count("\\begin{tabular}") == 1
    assert sorted(path.name for path in (tmp_path / "deep" / "down").iterdir()) == sorted(path.name for path in written)
    if exhibit in FIGURES:
        assert texts[".png"].startswith(b"\x89PNG")
        assert ElementTree.fromstring(texts[".svg"]).tag.endswith("svg")
        assert f"]({exhibit.name}.png)" in texts[".md"].decode()
        again = {path.suffix: path.read_bytes() for path in exhibit.write(SCOPE, results, tmp_path / "again")}
        assert again == texts


def test_a_quick_one_says_so_everywhere():
    results = results_of(without=dict.fromkeys(SETS, "no"))
    for exhibit in EXHIBITS:
        assert "not comparable with any result" in exhibit.table(Scope(quick=True), results).markdown()
        assert "not comparable with any result" not in exhibit.table(Scope(), results).markdown()


def test_a_figure_without_runs_is_a_table_that_says_so(tmp_path):
    written = FIGURES[1].write(SCOPE, results_of(), tmp_path)
    assert sorted(path.suffix for path in written) == [".csv", ".md", ".tex"]
    assert "not run" in (tmp_path / "figure-2.md").read_text()
