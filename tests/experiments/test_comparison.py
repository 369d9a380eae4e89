from __future__ import annotations

import pytest
from scipy import stats

from clnr import run
from clnr.experiments.comparison import Comparison
from clnr.experiments.results import Summary
from clnr.experiments.run_cache import RunCache
from clnr.methods import GRACE
from clnr.methods.presets import preset
from tests.command_line import only_json
from tests.experiments.test_run_cache import made


def summary(method, scores):
    """Runs of seeds 0, 1, 2 ..., given in another order."""
    runs = [made(seed, method=method, strict=score, paper=score + 1) for seed, score in enumerate(scores)]
    return Summary.of(runs[::-1])


FIRST = (80.0, 81.0, 79.5, 80.25, 82.0, 80.5, 79.0, 81.5)
BETTER = tuple(score + gain for score, gain in zip(FIRST, (0.5, 0.25, 1.0, 0.75, 1.25, 1.5, 1.75, 2.0), strict=True))
MIXED = tuple(score + gain for score, gain in zip(FIRST, (0.5, -0.25, 1.0, -0.75, 1.25, -1.5, 1.75, 2.0), strict=True))


def test_differences_are_of_the_same_seeds_from_the_first():
    compared = Comparison.of([summary("A", FIRST), summary("B", BETTER), summary("C", MIXED)])
    better, mixed = compared.differences
    assert better.mean == pytest.approx(9 / 8)
    assert mixed.mean == pytest.approx(0.5)
    assert better.p == 2 / 2**8
    assert mixed.p == pytest.approx(stats.wilcoxon(MIXED, FIRST, method="exact").pvalue)
    assert (better.corrected, mixed.corrected) == (2 * better.p, max(mixed.p, 2 * better.p))
    assert Comparison.of([summary("A", FIRST), summary("B", FIRST)]).differences == ((0, 1, 1),)


# -- the command -----------------------------------------------------------------------------------------------------------

QUICK = {"epochs": 2, "probe_steps": 20, "hidden": 16, "dimension": 16}
FIELDS = ["corrected", "mean", "p"]
SET = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
COMPARE = ["compare", "toy", "--methods", "clnr, GRACE,dgi", "--seeds", "2", "--device", "cpu", *SET]


def test_compare_gives_what_run_gives_and_both_use_one_record(clnr):
    compared = only_json(clnr(*COMPARE, "--json"))
    recipe = preset(GRACE, "toy").recipe.but(**QUICK)
    scores = [run(GRACE, "toy", seed, recipe=recipe, device="cpu").strict for seed in range(2)]
    assert [each["method"] for each in compared["methods"]] == ["CLNR", "GRACE", "DGI"]
    assert all({name: each["recipe"][name] for name in QUICK} == QUICK for each in compared["methods"])
    assert compared["methods"][1]["strict"]["runs"] == scores
    assert [each["difference"] and sorted(each["difference"]) for each in compared["methods"]] == [None, *[FIELDS] * 2]
    assert len(RunCache().runs()) == 6
    alone = clnr("run", "GRACE", "toy", "--seeds", "2", "--device", "cpu", *SET, "--json")
    assert "2 of 2 from the run cache" in alone.err
    assert only_json(alone)["strict"]["runs"] == scores
    assert len(RunCache().runs()) == 6


def test_a_key_goes_to_the_methods_that_have_a_use_for_it(clnr):
    words = ["compare", "toy", "--methods", "Raw,BGRL", "--seeds", "1", "--device", "cpu", "--json"]
    changes = {"momentum": 0.5, "probe_steps": 5, "epochs": 1, "hidden": 4, "dimension": 4}
    words += [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    raw, bgrl = only_json(clnr(*words))["methods"]
    assert {key: bgrl["recipe"][key] for key in changes} == changes
    assert raw["recipe"]["probe_steps"] == 5
    assert raw["recipe"]["momentum"] != 0.5
