from __future__ import annotations

import math

import pytest
from reproduce.paper_runs.scope import Scope

from clnr.methods import CLNR, GRACE
from reproduce import authors
from tests.reproduce.made import made, results_of

SCOPE = Scope(seeds=2)


def table(*runs, scope=SCOPE):
    return authors.table(scope, results_of(*runs))


def cells(table):
    return {tuple(cell.text for cell in row[:3]): row[3:] for row in table.rows}


def test_an_accuracy_is_compared_by_the_authors_rule_in_standard_errors():
    """84.3 with a spread of 0.6 over 20 runs is printed; ours are 85 and 86."""
    batch = SCOPE.batch(CLNR, "cora")
    found = cells(table(*(made(batch, seed, paper=85.0 + seed, strict=1.0) for seed in range(2))))
    ours, theirs, difference, errors = found["accuracy", "CLNR", "Cora"]
    assert (ours.text, theirs.text, difference.text) == ("85.50", "84.3", "+1.20")
    assert float(errors.text) == pytest.approx(1.2 / math.sqrt(0.5 / 2 + 0.6**2 / 20), abs=0.05)
    assert not errors.bold
    assert found["accuracy, their program", "CLNR", "Cora"][1].text == "83.9"


def test_what_is_far_is_bold():
    batch = SCOPE.batch(GRACE, "photo")
    found = cells(table(*(made(batch, seed, paper=90.0) for seed in range(2))))
    assert found["accuracy", "GRACE", "Photo"][3] == (f"{-3.3 / math.sqrt(0.4**2 / 20):+.1f}", True)


def test_times_are_compared_by_their_ratio_where_both_methods_have_them():
    def timed(method, seconds):
        batch = authors.result_tables.time_batch(SCOPE, method, "photo")
        return made(batch, 0, extra_metrics={"time": {"train_seconds": seconds}})

    assert not any(what == "seconds" for what, *_ in cells(table(timed(CLNR, 2.0))))
    found = cells(table(timed(CLNR, 2.0), timed(GRACE, 30.0)))
    assert [cell.text for cell in found["ratio of seconds", "GRACE / CLNR", "Photo"]] == ["15.00", "18.2", "-3.20", "-"]
    assert found["seconds", "GRACE", "Photo"][1].text == "143.25"
    assert found["seconds, their program", "CLNR", "Photo"][1].text == "4.7"


def test_cluster_scores_have_our_error_alone():
    batch = SCOPE.batch(CLNR, "cora", extra_metrics=("clusters",))
    scores = [{"silhouette": 0.1 + 0.02 * seed, "davies_bouldin": 2.0, "calinski_harabasz": 60.0} for seed in range(2)]
    runs = [made(batch, seed, extra_metrics={"clusters": each}) for seed, each in enumerate(scores)]
    found = cells(table(*runs))
    assert [cell.text for cell in found["silhouette", "CLNR", "Cora"]] == ["0.110", "0.105", "+0.005", "+0.5"]
    assert found["davies-bouldin", "CLNR", "Cora"][3].text == "-"


def test_without_runs_there_are_no_rows_and_the_page_is_narrow():
    empty = table()
    assert list(empty.rows) == []
    assert "Of 0, 0 differ" in empty.notes[0]
    assert max(map(len, table(made(SCOPE.batch(CLNR, "cora"))).markdown().splitlines())) <= 120
    assert cells(table(made(SCOPE.batch(CLNR, "cora")), scope=Scope(seeds=2, datasets=("toy",)))) == {}
