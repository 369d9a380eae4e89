from __future__ import annotations

from math import nan

import pytest

from clnr.embedding.defaults import LINKS
from clnr.embedding.scoring.baseline_comparison import compare, headline_scores, score_warnings
from clnr.methods import CLNR


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


@pytest.mark.parametrize(("edges", "few"), [(1, "1 held-out edge is too few"), (29, "29 held-out edges are too few"), (30, "")])
def test_a_handful_of_edges_decides_nothing(edges, few):
    baselines, own = {"A": scored(auc=0.9)}, scored(auc=0.4, links_held_out=float(edges))
    found, (warned,) = compare(CLNR, own, baselines), score_warnings(CLNR, own, {})
    assert found.beaten is not bool(few)
    assert found.sentence.startswith(f"{few} to say") is warned.startswith(f"{few} to judge by") is bool(few)
    # By labels it is decided all the same.
    assert not compare(CLNR, own | scored(80), {"A": scored(70, 0.9)}).sentence.startswith(str(edges))


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


@pytest.mark.parametrize("strict", [None, 60])
def test_without_labels_and_for_links_edges_decide(strict):
    ours, baselines = scored(strict, 0.7), {"A": scored(strict and 50, 0.9), "B": scored(strict and 80, 0.6)}
    made = compare(CLNR, ours, baselines, LINKS if strict else None)
    assert (made.measure.key, made.rival, made.beaten) == ("link_auc", "A", True)
    assert made.sentence == "for predicting edges, A scores higher than CLNR: link AUC 0.900 against 0.700"
    assert compare(CLNR, ours, baselines).rival == ("B" if strict else "A")


def test_of_two_that_only_guess_the_largest_class_none_is_better():
    for ours in (60, 22):
        own, baselines = scored(ours, majority_accuracy=60), {"Raw": scored(61)}
        assert compare(CLNR, own, baselines).sentence == ""
        assert len(score_warnings(CLNR, own, baselines)) == 1
    assert compare(CLNR, scored(61, majority_accuracy=50), {"A": scored(50)}).sentence.endswith("accuracy 61.0 against 50.0 %")
    assert "score alike" in compare(CLNR, scored(53, majority_accuracy=50), {"A": scored(52)}).sentence


def test_an_unknown_error_is_noise_and_nothing_is_compared_with_nothing():
    assert not compare(CLNR, scored(auc=0.5), {"A": scored(auc=0.9, error=nan)}).beaten
    assert not compare(CLNR, scored(auc=0.5), {"A": {"link_auc": 0.9}}).beaten
    assert compare(CLNR, scored(80, 0.9), {}) is None
    assert compare(CLNR, {"effective_rank": 3.0}, {"A": scored(80)}) is None
    half = compare(CLNR, scored(80, 0.9), {"Raw": scored(auc=0.8), "A": scored(70, 0.7)})
    assert half.rows[0] == ("raw features: the best of 2 by link AUC", "0.800", "-")
    assert half.rival == "A"


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({"auc": 0.49}, "below chance, 0.5"),
        ({"auc": 0.54}, "near chance: 0.5 to 0.55"),
        ({"auc": 0.56}, None),
        ({"strict": 30, "majority_accuracy": 30.0}, "not above the majority-class baseline, 30.0 %"),
        ({"strict": 33.4, "majority_accuracy": 30.0}, "hardly above the majority-class baseline, 30.0 %"),
        ({"strict": 33.6, "majority_accuracy": 30.0}, None),
    ],
)
def test_what_is_near_chance_or_the_majority_is_a_warning(scores, words):
    lines = score_warnings(CLNR, scored(**scores), {})
    assert [line.partition(" is ")[2] for line in lines] == ([] if words is None else [words])


def test_what_a_baseline_beats_is_a_warning_once():
    def warned(*scores, **baselines):
        return [line.partition(":")[0] for line in score_warnings(CLNR, scored(*scores), baselines)]

    raw, labels, edges = "raw features score higher than CLNR", "for predicting labels, ", "for predicting edges, "
    assert warned(70, 0.8, Raw=scored(65, 0.7), A=scored(75, 0.7)) == [f"{labels}A scores higher than CLNR"]
    assert warned(70, 0.8, Raw=scored(75, 0.7), A=scored(65, 0.7)) == [labels + raw]
    both = [f"{labels}A scores higher than CLNR", labels + raw, edges + raw]
    assert warned(70, 0.8, Raw=scored(75, 0.9), A=scored(80, 0.7)) == both
    assert warned(70, 0.8, Raw=scored(71, 0.81), A=scored(71, 0.7)) == []
    assert warned(None, 0.8, A=scored(auc=0.9)) == []
    assert warned(None, 0.8, Raw=scored(auc=0.9)) == [edges + raw]


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
