from __future__ import annotations

from math import nan

import numpy as np
import pytest

from clnr.embedding.defaults import LINKS
from clnr.embedding.scoring.baseline_comparison import compare, headline_scores, score_warnings
from clnr.graph import Graph
from clnr.methods import CLNR, RAW
from tests.conftest import tiny

pytestmark = pytest.mark.usefixtures("options")

RING = Graph.from_edges(range(7), [*range(1, 7), 0], np.eye(7), undirected=True)
SQUARE = Graph.from_edges(range(8), [*range(1, 8), 0], np.eye(8))


def scored(strict=None, auc=None, validation=None, error=1.0, **more):
    """Scores of a baseline; the error of an AUC is a hundredth of that of an accuracy."""
    made = {} if auc is None else {"link_auc": auc, "link_auc_error": error / 100}
    if strict is not None:
        validation = strict if validation is None else validation
        made |= {"strict_accuracy": strict, "validation_accuracy": validation, "strict_accuracy_error": error}
    return made | more


def test_the_table_has_raw_features_the_best_and_this_embedding():
    baselines = {"Raw": scored(60, 0.7), "A": scored(70, 0.9, validation=71), "B": scored(75, 0.8, validation=70)}
    found = compare(CLNR, scored(80, 0.95), baselines)
    assert found.headings == ("", "link AUC", "accuracy %")
    assert found.rows == (
        ("raw features", "0.700", "60.0"),
        ("A: the best of 3 baselines", "0.900", "70.0"),
        ("CLNR: this embedding", "0.950", "80.0"),
    )
    assert found.sentence == "for predicting labels, CLNR scores higher than the best baseline, A: accuracy 80.0 against 70.0 %"
    assert not found.beaten


def test_the_table_names_the_baselines_that_the_headlines_name():
    baselines = {"Raw": scored(60, 0.7), "A": scored(70, 0.9), "B": scored(75, 0.8)}
    found = compare(CLNR, scored(80, 0.85), baselines)
    names = ["raw features", "A: the best of 3 by link AUC", "B: the best of 3 by validation accuracy"]
    assert [row[0] for row in found.rows] == [*names, "CLNR: this embedding"]
    auc, accuracy = headline_scores(scored(80, 0.85), baselines, 8)
    assert auc.meaning.endswith("; beaten by A, 0.900")
    assert accuracy.meaning.endswith("; beats B, 75.0 %")
    # Raw features may be the best, too.
    raw = {"Raw": scored(76, 0.95), "A": scored(70, 0.9)}
    found = compare(CLNR, scored(80, 0.85), raw)
    assert [row[0] for row in found.rows] == ["raw features: the best of 2 baselines", "CLNR: this embedding"]
    assert all("raw features" in each.meaning for each in headline_scores(scored(80, 0.85), raw, 8))


def test_the_best_is_chosen_by_validation_and_never_by_test_nodes():
    assert compare(CLNR, scored(80), {"A": scored(70, validation=71), "B": scored(99, validation=70)}).rival == "A"
    # Of equals, the one that predicts edges best.
    equal = {"Raw": scored(60, 0.55, validation=100), "A": scored(93, 0.7, validation=100)}
    assert compare(CLNR, scored(93), equal).rival == "A"


@pytest.mark.parametrize(
    ("edges", "said"), [(1, "1 held-out edge is too few"), (29, "29 held-out edges are too few"), (30, "")]
)
def test_a_handful_of_edges_decides_nothing(edges, said):
    baselines, own = {"A": scored(auc=0.9)}, scored(auc=0.4, links_held_out=float(edges))
    found, warned = compare(CLNR, own, baselines), score_warnings(RING, CLNR, own, {})
    assert found.beaten is not bool(said)
    assert (found.sentence.startswith(f"{said} to say whether CLNR is better: link AUC 0.400 against 0.900 of A")) is bool(said)
    assert (warned[0].startswith(f"{said} to judge by: a link AUC of 0.400 may be chance")) is bool(said)
    assert len(warned) == 1
    # By labels it is decided all the same.
    labelled = compare(CLNR, own | scored(80), {"A": scored(70, 0.9)})
    assert labelled.sentence.startswith("for predicting labels, CLNR scores higher than A")


@pytest.mark.parametrize(
    ("ours", "baselines", "said"),
    [
        (80, {"A": 82.1}, "A scores higher than CLNR"),
        (80, {"A": 81.9}, "A and CLNR score alike, within 2 standard errors"),
        (80, {"A": 78.1}, "A and CLNR score alike, within 2 standard errors"),
        (80, {"A": 77.9}, "CLNR scores higher than A"),
        (80, {"Raw": 60, "A": 50}, "CLNR scores higher than the best baseline, raw features"),
        (50, {"Raw": 70, "A": 60}, "raw features score higher than CLNR"),
    ],
)
def test_the_winner_is_named_and_two_standard_errors_are_noise(ours, baselines, said):
    found = compare(CLNR, scored(ours), {name: scored(each) for name, each in baselines.items()})
    assert found.sentence.startswith(f"for predicting labels, {said}: accuracy ")


def test_for_links_edges_decide():
    ours, baselines = scored(60, 0.7), {"A": scored(50, 0.9), "B": scored(80, 0.6)}
    assert compare(CLNR, ours, baselines).rival == "B"
    made = compare(CLNR, ours, baselines, LINKS)
    assert (made.measure.key, made.rival) == ("link_auc", "A")
    assert made.sentence == "for predicting edges, A scores higher than CLNR: link AUC 0.900 against 0.700"


def test_of_two_that_only_guess_the_largest_class_none_is_better():
    for ours in (60, 22):
        own, baselines = scored(ours, majority_accuracy=60), {"Raw": scored(61)}
        assert compare(CLNR, own, baselines).sentence == ""
        (line,) = score_warnings(RING, CLNR, own, baselines)
        assert line == f"the accuracy of {ours:.1f} % is not above the majority-class baseline, 60.0 %"
    assert compare(CLNR, scored(61, majority_accuracy=50), {"A": scored(50)}).sentence.endswith("accuracy 61.0 against 50.0 %")
    assert "score alike" in compare(CLNR, scored(53, majority_accuracy=50), {"A": scored(52)}).sentence


@pytest.mark.parametrize(
    ("auc", "said"),
    [
        (0.8, "A scores higher than CLNR: link AUC 0.900 against 0.800"),
        (0.89, "A and CLNR score alike, within 2 standard errors: link AUC 0.900 against 0.890"),
        (0.99, "CLNR scores higher than the best baseline, A: link AUC 0.990 against 0.900"),
    ],
)
def test_without_labels_edges_decide(auc, said):
    baselines = {"Raw": scored(auc=0.7), "A": scored(auc=0.9), "B": scored(auc=0.85)}
    found = compare(CLNR, scored(auc=auc), baselines)
    assert found.headings == ("", "link AUC")
    assert found.sentence == f"for predicting edges, {said}"
    hint = "to see which helps your task, give labels of some nodes: --label COLUMN"
    assert hint in score_warnings(RING, CLNR, scored(auc=auc), baselines)
    # Labels may be given, and be of one class.
    assert hint not in score_warnings(tiny(), CLNR, scored(auc=auc), baselines)
    assert hint not in score_warnings(RING, CLNR, scored(auc=auc), baselines, LINKS)


def test_an_unknown_error_is_noise_and_nothing_is_compared_with_nothing():
    assert not compare(CLNR, scored(auc=0.5), {"A": scored(auc=0.9, error=nan)}).beaten
    assert not compare(CLNR, scored(auc=0.5), {"A": {"link_auc": 0.9}}).beaten
    assert compare(CLNR, scored(80, 0.9), {}) is None
    assert compare(CLNR, {"effective_rank": 3.0}, {"A": scored(80)}) is None
    half = compare(CLNR, scored(80, 0.9), {"Raw": scored(auc=0.8), "A": scored(70, 0.7)})
    assert half.rows[0] == ("raw features: the best of 2 by link AUC", "0.800", "-")
    assert half.rival == "A"


@pytest.mark.parametrize(("auc", "words"), [(0.49, "below chance, 0.5"), (0.54, "near chance: 0.5 to 0.55"), (0.56, None)])
def test_a_link_auc_near_chance_is_a_warning(auc, words):
    lines = score_warnings(RING, CLNR, scored(auc=auc), {})
    assert lines == ([] if words is None else [f"the link AUC of {auc:.3f} is {words}"])


@pytest.mark.parametrize(("strict", "warned"), [(29, "not"), (30, "not"), (33.4, "hardly"), (33.6, "")])
def test_what_is_not_above_the_majority_is_a_warning(strict, warned):
    lines = score_warnings(tiny(), CLNR, scored(strict, majority_accuracy=30.0), {})
    said = f"the accuracy of {strict:.1f} % is {warned} above the majority-class baseline, 30.0 %"
    assert lines == [said] * bool(warned)


def test_what_a_baseline_beats_is_a_warning_once():
    beaten = score_warnings(RING, CLNR, scored(70, 0.8), {"Raw": scored(65, 0.7), "A": scored(75, 0.7)})
    assert beaten == [compare(CLNR, scored(70), {"A": scored(75)}).sentence]
    by_raw = score_warnings(RING, CLNR, scored(70, 0.8), {"Raw": scored(75, 0.7), "A": scored(65, 0.7)})
    assert by_raw == [compare(CLNR, scored(70), {RAW.name: scored(75)}).sentence]
    both = score_warnings(RING, CLNR, scored(70, 0.8), {"Raw": scored(75, 0.9), "A": scored(80, 0.7)})
    raw = "raw features score higher than CLNR"
    labels = [f"for predicting labels, {each}" for each in ("A scores higher than CLNR", raw)]
    assert [line.split(":")[0] for line in both] == [*labels, f"for predicting edges, {raw}"]
    assert score_warnings(RING, CLNR, scored(70, 0.8), {"Raw": scored(71, 0.81), "A": scored(71, 0.7)}) == []
    assert score_warnings(tiny(), CLNR, scored(auc=0.8), {"A": scored(auc=0.9)}) == []
    assert len(score_warnings(tiny(), CLNR, scored(auc=0.8), {"Raw": scored(auc=0.9)})) == 1


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        *(({"link_auc": auc}, said) for auc, said in ((0.54, "poor"), (0.55, "fair"), (0.79, "fair"), (0.8, "good"))),
        *(
            ({"strict_accuracy": accuracy, "majority_accuracy": 30.0}, said)
            for accuracy, said in ((30, "poor"), (33, "poor"), (34, "fair"), (64, "fair"), (65, "good"))
        ),
        ({"effective_rank": 1.1, "link_auc": nan}, "poor"),
        ({"effective_rank": 9.0}, ""),
    ],
)
def test_a_score_is_judged_by_its_distance_from_chance_the_commonest_class_and_collapse(scores, verdict):
    (score,) = headline_scores(scores, {}, 64)
    assert score.verdict == verdict


@pytest.mark.parametrize(
    ("scores", "error", "verdict", "meaning"),
    [
        ({"link_auc": 0.9}, 0.01, "fair", "; beaten by SVD, 0.950"),
        ({"link_auc": 0.9}, 0.1, "good", "; level with SVD, 0.950"),
        ({"link_auc": 0.97}, 0.001, "good", "; beats SVD, 0.950"),
        ({"link_auc": 0.9, "links_held_out": 3.0}, 0.01, "", "; 3 held-out edges are too few to judge by"),
    ],
)
def test_what_a_baseline_beats_is_not_good_and_few_edges_are_not_judged_by(scores, error, verdict, meaning):
    baselines = {"Raw": {"link_auc": 0.6, "link_auc_error": 0.01}, "SVD": {"link_auc": 0.95, "link_auc_error": error}}
    (score,) = headline_scores(scores, baselines, 64)
    assert score.verdict == verdict
    assert score.meaning.endswith(meaning)
