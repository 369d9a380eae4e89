from __future__ import annotations

from math import nan

import pytest

from clnr.embedding.scoring.headline_scores import headline_scores


def verdict(scores, baselines=None):
    (score,) = headline_scores(scores, baselines or {}, 64)
    return score.verdict


@pytest.mark.parametrize(("auc", "said"), [(0.4, "poor"), (0.54, "poor"), (0.55, "fair"), (0.79, "fair"), (0.8, "good")])
def test_a_link_auc_is_judged_by_its_distance_from_chance(auc, said):
    assert verdict({"link_auc": auc}) == said


def test_a_link_auc_by_a_handful_of_edges_is_not_judged():
    scores, baselines = {"link_auc": 0.9, "links_held_out": 3.0}, {"A": {"link_auc": 0.2, "link_auc_error": 0.01}}
    (score,) = headline_scores(scores, baselines, 64)
    assert score.verdict == ""
    assert score.meaning.endswith("; 3 held-out edges are too few to judge by")


@pytest.mark.parametrize(("accuracy", "said"), [(30, "poor"), (31, "fair"), (64, "fair"), (65, "good")])
def test_an_accuracy_is_judged_by_what_the_commonest_class_gets_wrong(accuracy, said):
    assert verdict({"strict_accuracy": accuracy, "majority_accuracy": 30.0}) == said


def test_what_a_baseline_beats_is_not_good():
    scores = {"link_auc": 0.9}
    baselines = {"Raw": {"link_auc": 0.6, "link_auc_error": 0.01}, "SVD": {"link_auc": 0.95, "link_auc_error": 0.01}}
    (beaten,) = headline_scores(scores, baselines, 64)
    assert beaten.verdict == "fair"
    assert beaten.meaning.endswith("; beaten by SVD, 0.950")
    baselines["SVD"]["link_auc_error"] = 0.1
    (level,) = headline_scores(scores, baselines, 64)
    assert (level.verdict, level.meaning.endswith("; level with SVD, 0.950")) == ("good", True)
    (better,) = headline_scores(scores, {"Raw": baselines["Raw"]}, 64)
    assert better.meaning.endswith("; beats raw features, 0.600")


def test_a_collapse_is_poor_and_what_is_not_a_number_is_left_out():
    (rank,) = headline_scores({"effective_rank": 1.1, "link_auc": nan}, {}, 64)
    assert (rank.value, rank.verdict) == ("1.1 of 64", "poor")
    assert verdict({"effective_rank": 9.0}) == ""
