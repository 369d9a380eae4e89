from __future__ import annotations

import itertools
import re

import pytest
from scipy import stats

from clnr import run
from clnr.experiments.comparison import Comparison
from clnr.experiments.results import Summary
from clnr.experiments.run_cache import RunCache
from clnr.methods import GRACE
from clnr.methods.presets import preset
from tests.cli.test_cli import assert_refused, entry_point, only_json
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


def test_the_first_is_not_compared_with_itself_and_one_comparison_needs_no_correction():
    compared = Comparison.of([summary("A", FIRST), summary("B", MIXED)])
    assert len(compared.differences) == 1
    assert compared.differences[0].corrected == compared.differences[0].p


def test_the_same_scores_differ_by_nothing():
    (same,) = Comparison.of([summary("A", FIRST), summary("B", FIRST)]).differences
    assert same == (0, 1, 1)


def test_turned_round_the_sign_turns_and_the_test_does_not():
    there, back = (Comparison.of([summary(a, x), summary(b, y)]).differences[0] for (a, x), (b, y) in both_ways())
    assert there.mean == -back.mean
    assert there.p == back.p


def both_ways():
    return itertools.permutations([("A", FIRST), ("B", MIXED)])


def test_other_seeds_cannot_be_compared():
    with pytest.raises(ValueError, match="zip"):
        Comparison.of([summary("A", FIRST), summary("B", FIRST[:5])])


def test_as_json_every_method_is_told_with_its_difference():
    told = Comparison.of([summary("A", FIRST), summary("B", BETTER), summary("C", MIXED)]).to_dict()
    assert told["first"] == "A"
    assert [each["method"] for each in told["methods"]] == ["A", "B", "C"]
    assert told["methods"][0]["difference"] is None
    for each in told["methods"][1:]:
        assert set(each["difference"]) == {"mean", "p", "corrected"}
    assert told["methods"][1]["strict"]["runs"] == list(BETTER)
    assert set(told["methods"][1]) == {*summary("B", BETTER).to_dict(), "difference"}


# -- the command -----------------------------------------------------------------------------------------------------------

QUICK = {"epochs": 2, "probe_steps": 20, "hidden": 16, "dimension": 16}
SET = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
COMPARE = ["compare", "toy", "--methods", "clnr, GRACE,dgi", "--seeds", "2", "--device", "cpu", *SET]


@pytest.fixture
def clnr(monkeypatch, capsys):
    return entry_point(monkeypatch, capsys)


@pytest.mark.full
def test_compare_prints_one_object_with_every_method(clnr):
    told = only_json(clnr(*COMPARE, "--json"))
    assert told["first"] == "CLNR"
    assert [each["method"] for each in told["methods"]] == ["CLNR", "GRACE", "DGI"]
    first, *others = told["methods"]
    assert first["difference"] is None
    for each in others:
        apart = [b - a for a, b in zip(first["strict"]["runs"], each["strict"]["runs"], strict=True)]
        assert each["difference"]["mean"] == pytest.approx(sum(apart) / 2)
        assert 0.5 <= each["difference"]["p"] <= each["difference"]["corrected"] <= 1
        assert (each["seeds"], each["epochs"]) == (2, 2)
    assert all({name: each["recipe"][name] for name in QUICK} == QUICK for each in told["methods"])


def test_compare_gives_what_run_gives_and_both_use_one_record(clnr):
    compared = only_json(clnr(*COMPARE, "--json"))
    recipe = preset(GRACE, "toy").recipe.but(**QUICK)
    scores = [run(GRACE, "toy", seed, recipe=recipe, device="cpu").strict for seed in range(2)]
    assert compared["methods"][1]["strict"]["runs"] == scores
    assert len(RunCache().runs()) == 6
    alone = clnr("run", "GRACE", "toy", "--seeds", "2", "--device", "cpu", *SET, "--json")
    assert "2 of 2 from the run cache" in alone.err
    assert only_json(alone)["strict"]["runs"] == scores
    assert len(RunCache().runs()) == 6


def test_compare_prints_a_table_with_its_notes(clnr):
    ended = clnr(*COMPARE)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].startswith("toy, 2 seeds, ")
    assert [line.split()[0] for line in lines[3:6]] == ["CLNR", "GRACE", "DGI"]
    assert [len(line.split()) for line in lines[3:6]] == [7, 9, 9]
    assert lines[6].startswith("* ")
    assert lines[7].startswith("** Wilcoxon")
    assert re.search(r"2 seeds cannot give less than 1\.000$", ended.out.rstrip())
    assert max(map(len, lines[:6])) <= 80


def test_a_key_goes_to_the_methods_that_have_a_use_for_it(clnr):
    words = ["compare", "toy", "--methods", "Raw,BGRL", "--seeds", "1", "--device", "cpu", "--json"]
    changes = {"momentum": 0.5, "probe_steps": 5, "epochs": 1, "hidden": 4, "dimension": 4}
    raw, bgrl = only_json(clnr(*words, *(word for key, value in changes.items() for word in ("--set", f"{key}={value}"))))[
        "methods"
    ]
    assert {key: bgrl["recipe"][key] for key in changes} == changes
    assert raw["recipe"]["probe_steps"] == 5
    assert raw["recipe"]["momentum"] != 0.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "CLNR,grcae"], "unknown method 'grcae'; did you mean 'GRACE'?"),
        (["--methods", "CLNR"], "--methods needs two or more different methods, not 'CLNR'"),
        (["--methods", "CLNR,GRACE,clnr"], "--methods needs two or more different methods, not 'CLNR,GRACE,clnr'"),
        (["--methods", "CLNR,"], "--methods needs two or more different methods, not 'CLNR,'"),
        (["CLNR"], "'CLNR' is a method, not a data set"),
        (["--methods", ""], "--methods needs two or more different methods, not ''"),
        (["--set", "momentum=0.5"], "momentum is not a hyper-parameter of CLNR, GRACE, CCA-SSG"),
        (["--methods", "Raw,GCN", "--set", "temperature=0.5"], "temperature is not a hyper-parameter of Raw, GCN"),
        (["--set", "epoch=3"], "unknown recipe key 'epoch'; did you mean 'epochs'?"),
        (["--set", "epochs=-3"], "epochs must be from 0"),
        (["--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["coar"], "unknown data set 'coar'; did you mean 'cora'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_compared_is_one_line(clnr, home, words, said):
    assert said in assert_refused(clnr("compare", *words))
    assert not home.exists()
