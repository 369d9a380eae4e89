"""What scores mean: beside raw features and the best training-free baseline, what to doubt, and which a reader sees first.

All of it follows from the scores that a folder keeps, so that a report written later says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isfinite, nan
from typing import NamedTuple

from clnr.embedding.defaults import LINKS
from clnr.methods import RAW, Method
from clnr.report import Score
from clnr.support.humanize import plural

Scores = Mapping[str, float]

NOISE = 2.0
"""The least difference of two scores, in standard errors of the difference on the same nodes or pairs."""
NEAR_CHANCE, GOOD_AUC = 0.55, 0.8
"""A link AUC below the first is near chance; from the second on it is good."""
POOR_SHARE, GOOD_SHARE = 0.05, 0.5
"""An accuracy is poor until it removes the first share of the majority-class baseline's error, and good from the second on."""
COLLAPSED_RANK = 1.5
"""An embedding of a lower effective rank has collapsed."""
FEW_EDGES = 30
"""The least number of held-out edges for a link AUC; with fewer, its standard error is 0.05 or more."""


class _Measure(NamedTuple):
    """What is compared.

    The best baseline is ``chosen_by`` another score. ``task`` says what it is a score for; where the score is
    by edges, ``counted`` names how many.
    """

    key: str
    chosen_by: str
    heading: str
    digits: int
    unit: str
    task: str
    counted: str = ""

    def cell(self, scores: Scores) -> str:
        return f"{scores[self.key]:.{self.digits}f}" if self.key in scores else "-"

    def ahead(self, baseline: Scores, scores: Scores) -> int:
        """1 if a baseline's score is higher than the embedding's by more than noise, -1 if it is lower, else 0."""
        if self.few(scores):
            return 0
        difference = baseline[self.key] - scores[self.key]
        # Where the error is not known, no difference exceeds it.
        beyond = abs(difference) > NOISE * baseline.get(f"{self.key}_error", nan)
        return 0 if not beyond else 1 if difference > 0 else -1

    def few(self, scores: Scores) -> str:
        """Says by how few edges the embedding was scored; "" if they are enough."""
        count = scores.get(self.counted, inf)
        if count >= FEW_EDGES:
            return ""
        return f"{plural(int(count), 'held-out edge')} {'is' if count == 1 else 'are'} too few"

    def against(self, scores: Scores, others: Scores) -> str:
        return f"{self.heading.removesuffix(' %')} {self.cell(scores)} against {self.cell(others)}{self.unit}"

    def best(self, baselines: Mapping[str, Scores]) -> str | None:
        """The best baseline; None if none has the scores."""
        measured = {name: each for name, each in baselines.items() if {self.key, self.chosen_by} <= each.keys()}
        # Of equals, the one that also predicts edges best.
        ranks = {name: (each[self.chosen_by], each.get("link_auc", 0.0)) for name, each in measured.items()}
        return max(ranks, key=ranks.__getitem__, default=None)


_LINKS = _Measure("link_auc", "link_auc", "link AUC", 3, "", "for predicting edges, ", counted="links_held_out")
_ACCURACY = _Measure("strict_accuracy", "validation_accuracy", "accuracy %", 1, " %", "for predicting labels, ")


class BaselineComparison(NamedTuple):
    """A small table, with the best baseline by each measure, and one sentence.

    ``measure`` is what decides, and ``rival`` the best baseline by it, raw features among them; the embedding is
    ``beaten`` if that is better by more than noise.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentence: str
    measure: _Measure
    rival: str
    beaten: bool


def compare(
    method: Method, scores: Scores, baselines: Mapping[str, Scores], purpose: str | None = None
) -> BaselineComparison | None:
    """An embedding beside its baselines; None if there is nothing to compare.

    With labels, the best baseline is the one of highest validation accuracy, and strict accuracies are compared; without them,
    or for links, the link AUC decides both. Where both only guess the largest class, the sentence is empty.
    """
    columns = [each for each in (_LINKS, _ACCURACY) if each.key in scores]
    best = {each: name for each in columns if (name := each.best(baselines)) is not None}
    if not best:
        return None
    measure, rival = [*best.items()][0 if purpose == LINKS else -1]
    shown = dict.fromkeys([*({RAW.name} & baselines.keys()), *best.values()])
    rows = [(_title(name, best, len(baselines)), baselines[name]) for name in shown]
    rows.append((f"{method.name}: this embedding", scores))
    return BaselineComparison(
        ("", *(each.heading for each in columns)),
        tuple((name, *(each.cell(values) for each in columns)) for name, values in rows),
        _sentence(method, measure, rival, scores, baselines),
        measure,
        rival,
        measure.ahead(baselines[rival], scores) > 0,
    )


def _title(baseline: str, best: Mapping[_Measure, str], count: int) -> str:
    """What a row of the table is called: a baseline, and by which measure it is the best of how many."""
    by = [each.chosen_by.replace("_", " ").replace("auc", "AUC") for each, name in best.items() if name == baseline]
    if count == 1:
        return f"{_called(baseline)}: the only baseline"
    if not by:
        return _called(baseline)
    return f"{_called(baseline)}: the best of {count} {'baselines' if len(by) == len(best) else f'by {by[0]}'}"


def _called(baseline: str) -> str:
    return "raw features" if baseline == RAW.name else baseline


def _sentence(method: Method, measure: _Measure, rival: str, scores: Scores, baselines: Mapping[str, Scores]) -> str:
    best = baselines[rival]
    majority = scores.get("majority_accuracy", -inf) if measure is _ACCURACY else -inf
    if _is_poor(best[measure.key], majority) and _is_poor(scores[measure.key], majority):
        return ""
    called, ahead = _called(rival), measure.ahead(best, scores)
    lost, won = measure.against(best, scores), measure.against(scores, best)
    if few := measure.few(scores):
        return f"{few} to say whether {method.name} is better: {won} of {called}"
    if ahead < 0:
        rivals = called if len(baselines) == 1 else f"the best baseline, {called}"
        return f"{measure.task}{method.name} scores higher than {rivals}: {won}"
    if ahead == 0:
        return f"{measure.task}{called} and {method.name} score alike, within {NOISE:g} standard errors: {lost}"
    return f"{measure.task}{called} {'score' if rival == RAW.name else 'scores'} higher than {method.name}: {lost}"


def score_warnings(method: Method, scores: Scores, baselines: Mapping[str, Scores], purpose: str | None = None) -> list[str]:
    """Scores that should make a reader doubt the embedding, a line each."""
    compared, raw = compare(method, scores, baselines, purpose), baselines.get(RAW.name, {})
    decided = None if compared is None else compared.measure
    lines = [*_link_doubts(scores, decided), *_accuracy_doubts(scores)]
    beaten_by = [
        (each, RAW.name)
        for each in (_ACCURACY, _LINKS)
        if each.key in raw and each.key in scores and each.ahead(raw, scores) > 0
    ]
    if compared is not None and compared.beaten and decided == _ACCURACY:
        beaten_by.insert(0, (_ACCURACY, compared.rival))
    sentences = (_sentence(method, each, rival, scores, baselines) for each, rival in dict.fromkeys(beaten_by))
    return [*lines, *filter(None, sentences)]


def _link_doubts(scores: Scores, decided: _Measure | None) -> list[str]:
    if few := _LINKS.few(scores):
        # A comparison by edges says so itself.
        doubt = f"{few} to judge by: a link AUC of {_LINKS.cell(scores)} may be chance"
        return [] if decided == _LINKS else [doubt]
    auc = scores.get(_LINKS.key, 1.0)
    if auc >= NEAR_CHANCE:
        return []
    level = "below chance, 0.5" if auc < 0.5 else f"near chance: 0.5 to {NEAR_CHANCE}"
    return [f"the link AUC of {_LINKS.cell(scores)} is {level}"]


def _accuracy_doubts(scores: Scores) -> list[str]:
    accuracy, majority = scores.get(_ACCURACY.key, inf), scores.get("majority_accuracy", -inf)
    if not _is_poor(accuracy, majority):
        return []
    level = "not" if accuracy <= majority else "hardly"
    found = f"the accuracy of {_ACCURACY.cell(scores)} %"
    return [f"{found} is {level} above the majority-class baseline, {majority:.1f} %"]


def collapse_warnings(scores: Mapping[str, float], width: int) -> list[str]:
    """A line if an embedding of ``width`` columns uses hardly more than one dimension."""
    if scores["effective_rank"] >= COLLAPSED_RANK or width < 2:
        return []
    return ["the embedding has collapsed to about one dimension, so that nodes can hardly be told apart"]


def _is_poor(accuracy: float, majority: float) -> bool:
    return accuracy <= majority or accuracy - majority < POOR_SHARE * (100 - majority)


def headline_scores(scores: Scores, baselines: Mapping[str, Scores], dimension: int) -> list[Score]:
    """The link AUC, the accuracy and the effective rank, of those that were measured, and whether each is good.

    Where a baseline is better by more than noise, a score is not good.
    """
    finite = {name: value for name, value in scores.items() if isfinite(value)}
    shown = []
    for measure, headline in ((_LINKS, _headline_links), (_ACCURACY, _headline_accuracy)):
        if measure.key in finite:
            shown.append(_beside(measure, headline(finite), finite, baselines))
    if "effective_rank" in finite:
        meaning = "dimensions in use; near 1, the embedding has collapsed"
        verdict = "poor" if collapse_warnings(finite, dimension) else ""
        shown.append(Score("effective rank", f"{finite['effective_rank']:.3g} of {dimension:,}", meaning, verdict))
    return shown


def _headline_links(scores: Scores) -> Score:
    auc = scores[_LINKS.key]
    meaning = f"of 100 pairs of a held-out edge and a non-edge, the edge is more similar in {100 * auc:.0f} (chance: 50)"
    if few := _LINKS.few(scores):
        return Score("link AUC", f"{auc:.3f}", f"{meaning}; {few} to judge by", "")
    return Score("link AUC", f"{auc:.3f}", meaning, "poor" if auc < NEAR_CHANCE else "good" if auc >= GOOD_AUC else "fair")


def _headline_accuracy(scores: Scores) -> Score:
    accuracy, meaning = scores[_ACCURACY.key], "test nodes that a linear probe classifies right"
    if "majority_accuracy" not in scores:
        return Score("accuracy", f"{accuracy:.1f} %", meaning, "")
    majority = scores["majority_accuracy"]
    good = majority + GOOD_SHARE * (100 - majority)
    verdict = "poor" if _is_poor(accuracy, majority) else "good" if accuracy >= good else "fair"
    return Score("accuracy", f"{accuracy:.1f} %", f"{meaning} (majority-class baseline: {majority:.1f} %)", verdict)


def _beside(measure: _Measure, score: Score, scores: Scores, baselines: Mapping[str, Scores]) -> Score:
    """A score with what the best baseline has, raw features among them."""
    best = measure.best(baselines)
    if best is None or measure.few(scores):
        return score
    ahead = measure.ahead(baselines[best], scores)
    how = "beaten by" if ahead > 0 else "beats" if ahead < 0 else "level with"
    meaning = f"{score.meaning}; {how} {_called(best)}, {measure.cell(baselines[best])}{measure.unit}"
    return replace(score, meaning=meaning, verdict="fair" if ahead > 0 and score.verdict == "good" else score.verdict)
