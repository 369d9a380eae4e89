"""Every claim, where all is as the paper has it, and where the runs speak against it."""

from __future__ import annotations

import numpy as np
import pytest
from reproduce.claims import CLAIMS, contrasts, strict
from reproduce.record import CLUSTER_SCORES, SETS, Record, batch

from clnr.methods import CLNR, DCLNR, GCLNR, GRACE, METHODS, NCLNR, RCLNR
from reproduce import pages
from tests.reproduce.made import made

ALL_BUT_ONE = "CLNR is above every other self-supervised method on all data sets"
ALL_BUT_TWO = "CLNR is above every other self-supervised method on all but"
# As the paper has it, or would: the mean of each method's accuracy, and where it lies in figure 2.
ACCURACY = {"GAE": 70, "DGI": 75, "MVGRL": 76, "BGRL": 77, "CCA-SSG": 79, "GRACE": 78.5, "CLNR": 80, "nCLNR": 78}
ACCURACY |= {"GCN": 72, "GAT": 73}
LEADS = {("MVGRL", "citeseer"): 81, ("GRACE", "photo"): 81}
LEADS |= {(name, dataset): 85 for name in ("GCN", "GAT") for dataset in ("physics", "ogbn-arxiv")}
LEADS |= {("BGRL", dataset): 79.4 for dataset in ("computers", "ogbn-arxiv")}
PLANE = {"nCLNR": (0.35, -3.3), "rCLNR": (0.35, -3.3), "dCLNR": (0.35, -3.3), "CLNR": (0.3, -3.5), "GRACE": (0.1, -3.1)}
PLANE["GCLNR"] = (0.2, -3.3)
CLUSTERS = {"CLNR": (0.105, 2.2, 63.0), "GRACE": (0.041, 2.7, 49.0), "CCA-SSG": (0.089, 2.0, 70.0)}


def as_the_paper_has_it(batch, seed):
    random = np.random.default_rng([seed, sum(map(ord, batch.method.name + batch.dataset))])
    name, dataset = batch.method.name, batch.dataset
    level = ACCURACY.get(name, 60)
    if not batch.recipe.edge_noise:
        level = LEADS.get((name, dataset), level)
    level += 0.1 * random.standard_normal()
    if name in ("nCLNR", "CCA-SSG", "GRACE") and batch.recipe.edge_noise:
        level -= 2
    if name in ("nCLNR", "CCA-SSG") and batch.recipe.dimension == 64:
        level -= 10
    alignment, uniformity = PLANE.get(name, (0.5, -3.0))
    if name == "GRACE" and dataset == "photo":
        uniformity = -3.4
    if name == "GCLNR" and dataset == "photo":
        uniformity = -3.45
    if batch.recipe.dimension == 2:
        uniformity = {"CLNR": -1.6, "GRACE": -1.0}[name]
    alignment, uniformity = (alignment, uniformity) + 0.001 * random.standard_normal(2)
    extra = {"points": {}, "time": {"train_seconds": {"CLNR": 1.0, "GRACE": 20.5}.get(name, 5.0) + 0.001 * seed}}
    if name in CLUSTERS:
        scores = np.array(CLUSTERS[name]) * (1 + 0.001 * random.standard_normal())
        extra["clusters"] = dict(zip(CLUSTER_SCORES, scores, strict=True))
    return made(batch, seed, strict=level, alignment=alignment, uniformity=uniformity, extra_metrics=extra)


@pytest.fixture(scope="module")
def needed():
    return pages.needs()


@pytest.fixture(scope="module")
def world(needed):
    """All runs of the paper, as if everything were as it says."""
    # Of batches that share their runs the one with most seeds.
    needed = sorted(needed, key=lambda each: each.seeds)
    batches = {(each.method, each.dataset, each.changed): each for each in needed}
    return [as_the_paper_has_it(each, seed) for each in batches.values() for seed in range(each.seeds)]


@pytest.fixture(scope="module")
def judged(world):
    return pages.judge(Record(world))


def verdicts(runs):
    return {claim.says: result.verdict for claim, result in pages.judge(Record(runs))[0]}


@pytest.fixture(scope="module")
def assert_fails(needed):
    def fails(runs, *beginnings):
        here = Record(runs).on_one_platform(needed)
        for beginning in beginnings:
            (claim,) = (each for each in CLAIMS if each.says.startswith(beginning))
            assert claim.test(here).verdict == "fails", beginning

    return fails


def test_without_runs_no_claim_is_decided():
    assert verdicts([]) == dict.fromkeys((claim.says for claim in CLAIMS), "undecided")


def test_all_claims_hold_where_all_is_as_the_papers_tables_say_but_one_that_they_contradict(judged):
    tested, provenance = judged
    assert len(tested) == 22
    assert [claim.says for claim, result in tested if result.verdict != "holds"] == [f"{ALL_BUT_ONE} but CiteSeer (the text)"]
    assert provenance.startswith("Made by `python -m reproduce paper` from ")


def test_a_claim_has_a_picture_where_something_was_measured(judged):
    for claim, result in (judged[0][number - 1] for number in (1, 11, 15)):
        drawn = pages.draw_effects(result, claim.effect)
        # A line for the interval of each effect, its mark, and the line of no effect in each panel.
        assert sum(len(axis.lines) for axis in drawn.axes) == 2 * len(result.effects) + len(drawn.axes)
    assert pages.draw_effects(judged[0][0][1]._replace(effects=()), "") is None


def test_a_contrast_of_batches_is_of_their_runs():
    first, second = batch(CLNR, "cora", 2), batch(GRACE, "cora", 2)
    runs = [*(made(first, seed, strict=90.0 + seed) for seed in range(3)), made(second, 1), made(second, strict=np.nan)]
    (pair,) = contrasts(Record(runs), ["cora"], [(CLNR, GRACE, strict, "GRACE")], lambda method, name: [batch(method, name, 2)])
    assert (pair.larger, pair.smaller) == ({0: 90.0, 1: 91.0}, {1: 81.0})


def test_runs_of_another_machine_are_not_compared_with(world):
    """GRACE on a slow machine would make CLNR look fast."""
    found = verdicts([run._replace(machine="slow") if run.method == "GRACE" else run for run in world])
    compared = ("CLNR trains", "CLNR is above GRACE by up to")
    assert {verdict for says, verdict in found.items() if says.startswith(compared)} == {"undecided"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "sets", "shifts", "failing"),
    [
        (CLNR, ["cs"], {"strict": -1.7}, ["CLNR is above GRACE on all", ALL_BUT_ONE, ALL_BUT_TWO]),
        (CLNR, ["cs", "cora", "pubmed"], {"strict": -9}, ["CLNR is the best self-supervised", "CLNR is above supervised"]),
        (GRACE, SETS, {"strict": 1.3}, ["CLNR is above GRACE by up to 1.5", "CLNR is above GRACE by up to 1.4"]),
        (METHODS["MVGRL"], ["citeseer"], {"strict": -3}, ["MVGRL is above CLNR"]),
        (METHODS["BGRL"], ["cora"], {"strict": 8}, ["CCA-SSG is above BGRL"]),
        (CLNR, ["cora", "pubmed"], {"alignment": 0.2}, ["column-wise postprocessing improves both"]),
        (GRACE, ["computers"], {"uniformity": -0.5}, ["row-wise postprocessing gains alignment", "GCLNR lies between"]),
        (GRACE, ["photo"], {"alignment": 0.5}, ["row-wise postprocessing gains both on Photo"]),
        (GCLNR, ["pubmed"], {"alignment": 0.2}, ["GCLNR lies between"]),
        (RCLNR, ["physics"], {"uniformity": 0.1}, ["surprisingly, dCLNR is like nCLNR"]),
        (DCLNR, ["cora"], {"alignment": 0.4}, ["true whitening, dCLNR"]),
        (GRACE, ["cora"], {"uniformity": -0.9}, ["in two dimensions on Cora"]),
        (NCLNR, ["photo"], {"strict": 5}, ["under edge noise, CLNR is above"]),
    ],
)
def test_a_claim_fails_where_the_runs_speak_against_it(world, assert_fails, method, sets, shifts, failing):
    changed = [
        run._replace(**{name: getattr(run, name) + by for name, by in shifts.items()})
        if run.method == method.name and run.dataset in sets
        else run
        for run in world
    ]
    assert_fails(changed, *failing)


@pytest.mark.full
def test_speed_sensitivity_robustness_and_clusters_can_fail_too(world, assert_fails):
    scores = dict(zip(CLUSTER_SCORES, (0.0, 3.0, 10.0), strict=True))
    worse = {"time": {"train_seconds": 5.0}, "clusters": scores}

    def slow_touchy_and_spread(run):
        lost = 30 * ("dimension=64" in run.changed) + 9 * ("edge_noise" in run.changed)
        return run._replace(strict=run.strict - lost, extra_metrics=run.extra_metrics | worse)

    changed = [slow_touchy_and_spread(run) if run.method == "CLNR" else run for run in world]
    others = ("on Cora, CLNR has", "CLNR is more stable", "CLNR is the most robust")
    assert_fails(changed, "CLNR trains up to 20", "CLNR trains 18.2", *others)
