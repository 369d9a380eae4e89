"""The scores that a reader sees first: what each means, and whether it is good."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from clnr.embedding.scoring.baseline_comparison import NEAR_CHANCE, Scores, few_edges, rival_of
from clnr.embedding.scoring.job_scores import collapse_warnings
from clnr.report import Score

GOOD_AUC = 0.8
"""A link AUC from this on is good."""
GOOD_SHARE = 0.5
"""An accuracy is good if it is right for this share of the nodes that always guessing the commonest class gets wrong."""


def headline_scores(scores: Scores, baselines: Mapping[str, Scores], dimension: int) -> list[Score]:
    """The link AUC, the accuracy and the effective rank, of those that were measured.

    Where a baseline is better by more than noise, a score is not good.

    Args:
        scores: Of the embedding.
        baselines: Scores by the name of each method.
        dimension: Of the embedding.
    """
    found = {name: value for name, value in scores.items() if isfinite(value)}
    shown = []
    if "link_auc" in found:
        auc = found["link_auc"]
        meaning = f"of 100 pairs of a held-out edge and a non-edge, the edge is more similar in {100 * auc:.0f} (chance: 50)"
        verdict = "poor" if auc < NEAR_CHANCE else "good" if auc >= GOOD_AUC else "fair"
        if few := few_edges(found):
            shown.append(Score("link AUC", f"{auc:.3f}", f"{meaning}; {few} to judge by", ""))
        else:
            shown.append(_beside("link_auc", Score("link AUC", f"{auc:.3f}", meaning, verdict), scores, baselines))
    if "strict_accuracy" in found:
        accuracy, verdict = found["strict_accuracy"], ""
        meaning = "test nodes that a linear probe classifies right"
        if "majority_accuracy" in found:
            least = found["majority_accuracy"]
            meaning += f" (always the commonest class: {least:.1f} %)"
            half = least + GOOD_SHARE * (100 - least)
            verdict = "poor" if accuracy <= least else "good" if accuracy >= half else "fair"
        shown.append(_beside("strict_accuracy", Score("accuracy", f"{accuracy:.1f} %", meaning, verdict), scores, baselines))
    if "effective_rank" in found:
        rank = found["effective_rank"]
        meaning = "dimensions in use; near 1 it has collapsed, and nodes are hardly told apart"
        verdict = "poor" if collapse_warnings(found, dimension) else ""
        shown.append(Score("effective rank", f"{rank:.3g} of {dimension:,}", meaning, verdict))
    return shown


def _beside(key: str, score: Score, scores: Scores, baselines: Mapping[str, Scores]) -> Score:
    """A score with what the best baseline has."""
    rival = rival_of(key, scores, baselines)
    if rival is None:
        return score
    how = "beaten by" if rival.ahead > 0 else "beats" if rival.ahead < 0 else "level with"
    verdict = "fair" if rival.ahead > 0 and score.verdict == "good" else score.verdict
    return Score(score.name, score.value, f"{score.meaning}; {how} {rival.called}, {rival.value}", verdict)
