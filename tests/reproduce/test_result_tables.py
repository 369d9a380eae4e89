from __future__ import annotations

import dataclasses
import statistics

from reproduce.paper_runs.run_index import ResultSet
from reproduce.paper_runs.scope import SETS, Scope

from clnr.methods import BASELINES, CLNR, GRACE, METHODS
from clnr.methods.presets import preset
from reproduce import result_tables
from tests.conftest import tiny
from tests.reproduce.made import made, results_of

SCOPE = Scope(seeds=3)


def cells(table, *beginning):
    """The rest of the one row that begins so."""
    (line,) = [row for row in table.rows if tuple(cell.text for cell in row[: len(beginning)]) == beginning]
    return [cell.text for cell in line[len(beginning) :]]


def test_architectures_are_derived_and_are_the_papers(monkeypatch):
    table = result_tables.architectures(SCOPE, results_of())
    assert "every cell is as in the paper" in table.notes[0]
    assert cells(table, "CLNR") == ["N-N", "-", "-", "-", "✓"]
    assert cells(table, "MVGRL") == ["N-G", "✓", "✓", "✓", "✓"]
    assert len(table.groups[0]) == 6
    monkeypatch.setitem(result_tables._PUBLISHED_ARCHITECTURES, GRACE, ("N-G", True, True, False, True))
    assert "differs from the paper for GRACE" in result_tables.architectures(SCOPE, results_of()).notes[0]


def test_accuracies_of_both_protocols_stand_beside_what_was_published():
    batch = SCOPE.batch(CLNR, "cora")
    table = result_tables.accuracies(SCOPE, results_of(*(made(batch, seed) for seed in range(3)), without={"ogbn-arxiv": "no"}))
    names = table.head[2:]
    spread = statistics.pstdev([80, 81, 82])
    strict, rule = cells(table, "CLNR", "strict"), [row for row in table.rows if row[1].text == "paper rule"]
    assert strict[names.index("Cora")] == f"81.00 ± {spread:.2f}"
    assert strict[names.index("PubMed")] == "not run"
    assert strict[names.index("ogbn-arxiv")] == "no data"
    assert f"82.00 ± {spread:.2f}" in [cell.text for row in rule for cell in row]
    lines = [[cell.text for cell in row] for row in table.rows]
    clnr = next(i for i, line in enumerate(lines) if line[:2] == ["CLNR", "strict"])
    result = preset(CLNR, "cora").published
    assert lines[clnr + 2][:3] == ["", "published", f"{result.accuracy:.1f} ± {result.spread:.1f}"]


def test_what_the_paper_could_not_run_is_told_in_its_words():
    table = result_tables.accuracies(Scope(datasets=("ogbn-arxiv",)), results_of())
    lines = [[cell.text for cell in row] for row in table.rows]
    start = lines.index(["MVGRL", "strict", "not run"])
    assert lines[start + 2] == ["", "published", "OOM"]


def test_every_method_is_in_the_table_of_accuracies_and_the_papers_are_apart():
    table = result_tables.accuracies(SCOPE, results_of())
    groups = [[row[0].text for row in group if row[0].text] for group in table.groups]
    assert groups[0] == ["GAE", "DGI", "MVGRL", "CCA-SSG", "BGRL", "GRACE", "CLNR"]
    assert groups[1] == ["GCN", "GAT"]
    # But for those that came after it.
    ours = {method.name for method in METHODS.values() if method.readout or method in BASELINES}
    assert sorted(name for group in groups for name in group) == sorted(METHODS.keys() - ours)


def test_the_best_of_the_self_supervised_is_bold():
    values = {"CLNR": 80.0, "GRACE": 81.0, "GCN": 90.0}
    runs = [made(SCOPE.batch(METHODS[name], "cora"), strict=value) for name, value in values.items()]
    table = result_tables.accuracies(SCOPE, results_of(*runs))
    assert [row[0].text for row in table.rows if row[2].bold] == ["GRACE"]


def timed(method, dataset, seed, seconds):
    batch = result_tables.time_batch(SCOPE, method, dataset)
    return made(batch, seed, extra_metrics={"time": {"train_seconds": seconds, "parallel_seeds": 1}})


def test_times_are_medians_of_timed_runs_and_their_ratio():
    runs = [timed(CLNR, "photo", seed, seconds) for seed, seconds in enumerate((1.0, 2.0, 9.0))]
    runs += [timed(GRACE, "photo", seed, seconds) for seed, seconds in enumerate((20.0, 30.0, 31.0))]
    runs += [made(result_tables.time_batch(SCOPE, CLNR, "pubmed"), train_seconds=5.0)]
    table = result_tables.times(SCOPE, results_of(*runs, without={"ogbn-arxiv": "no"}))
    assert cells(table, "Photo", "100 / 1000", "3 / 3") == [
        *("2.00 (1.00-9.00)", "30.00 (20.00-31.00)", "15.0"),
        *("7.87", "143.25", "18.2"),
    ]
    # What was not made alone has no time of its own.
    assert cells(table, "PubMed", "600 / 1000", "0 / 0")[:3] == ["not run"] * 3
    assert cells(table, "ogbn-arxiv", "5000 / 10000", "0 / 0")[:3] == ["no data"] * 3


def test_times_of_two_machines_are_not_compared():
    runs = [timed(CLNR, "photo", seed, 1.0) for seed in range(3)]
    runs += [dataclasses.replace(timed(GRACE, "photo", seed, 900.0), machine="slow") for seed in range(2)]
    table = result_tables.times(Scope(seeds=3, datasets=("photo",)), results_of(*runs))
    assert cells(table, "Photo", "100 / 1000", "3 / 0")[:3] == ["1.00 (1.00-1.00)", "not run", "not run"]


def test_times_are_of_the_epochs_that_were_trained_and_of_methods_that_were_asked_for():
    table = result_tables.times(Scope(quick=True, datasets=("photo",), methods=("GRACE",)), results_of())
    assert cells(table, "Photo", "5 / 5", "0 / 0")[:3] == ["-", "not run", "-"]


def test_a_size_that_differs_from_the_papers_is_named(monkeypatch):
    monkeypatch.setattr(ResultSet, "load", lambda self, name: tiny())
    table = result_tables.sizes(Scope(datasets=("cora", "toy")), results_of())
    assert cells(table, "Cora")[-1] == "2,708 / 10,556 / 1,433 / 7"
    assert cells(table, "Toy")[-1] == "-"
    assert f"differ for Cora (40 / {tiny().num_edges} / 12 / 3)." in table.notes[0]


def test_settings_are_the_recipes_and_the_papers(monkeypatch):
    table = result_tables.settings(SCOPE, results_of())
    assert "every value is as in the paper" in table.notes[0]
    assert cells(table, "CiteSeer") == ["50", "1", "512", "0.5", "0.001", "0", "0.2", "0.5", "0.01", "0.01"]
    assert len(table.groups[0]) == len(SETS)
    printed = result_tables._PUBLISHED_SETTINGS
    monkeypatch.setitem(printed, "cora", printed["photo"])
    assert "differs from the paper for Cora" in result_tables.settings(SCOPE, results_of()).notes[0]


def test_clusters_are_means_over_seeds_beside_the_papers():
    batch = SCOPE.batch(CLNR, "cora", extra_metrics=("clusters",))
    scores = [{"silhouette": 0.1 * seed, "davies_bouldin": 2.0, "calinski_harabasz": 60.0} for seed in range(3)]
    runs = [made(batch, seed, extra_metrics={"clusters": each}) for seed, each in enumerate(scores)]
    table = result_tables.clusters(SCOPE, results_of(*runs))
    ours = ["0.100 ± 0.082", "2.000 ± 0.000", "60.000 ± 0.000", "3"]
    assert cells(table, "CLNR", "Cora") == [*ours, "0.105", "2.248", "63.066"]
    assert cells(table, "GRACE", "Cora")[:4] == [*["not run"] * 3, "0"]
