"""An embedding beside raw features and the best training-free baseline: a table, a sentence that names the winner, warnings.

All of it follows from the scores that a folder keeps, so that a report written later says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan
from typing import NamedTuple

import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from clnr.graph import Graph
from clnr.methods import RAW, Method
from clnr.support.humanize import plural

Scores = Mapping[str, float]

MOST_EDGES = 20_000_000
"""Baselines are not scored on a graph of more edges, both directions counted; nor are reasons looked for."""
NOISE = 2.0
"""Two scores are equal if they differ by less than so many standard errors of the difference, on the same nodes or pairs."""
NEAR_CHANCE = 0.55
"""A link AUC below this is near chance."""
FEW_EDGES = 30
"""From so many held-out edges on a link AUC says something; with fewer, its standard error is 0.05 and more."""


class _Measure(NamedTuple):
    """What is compared.

    Attributes:
        key: The score.
        chosen_by: The score by which the best baseline is chosen.
        heading: What the score is called.
        digits: After the decimal point.
        unit: Of the values.
        reason: Why raw features may do better.
        limits: What the score does not say.
        counted: Where it is by edges: the score that says by how many.
    """

    key: str
    chosen_by: str
    heading: str
    digits: int
    unit: str
    reason: str
    limits: str
    counted: str = ""

    def cell(self, scores: Scores) -> str:
        return f"{scores[self.key]:.{self.digits}f}" if self.key in scores else "-"

    def ahead(self, scores: Scores, own: Scores) -> int:
        """1 if a baseline's score is higher than the embedding's by more than noise, -1 if it is lower, else 0."""
        if self.few(own):
            return 0
        difference = scores[self.key] - own[self.key]
        # Where the error is not known, no difference exceeds it.
        beyond = abs(difference) > NOISE * scores.get(f"{self.key}_error", nan)
        return 0 if not beyond else 1 if difference > 0 else -1

    def few(self, own: Scores) -> str:
        """Says by how few edges the embedding was scored; "" if they are enough."""
        count = own.get(self.counted, inf)
        return f"{plural(int(count), 'held-out edge')} {'is' if count == 1 else 'are'} too few" if count < FEW_EDGES else ""

    def against(self, scores: Scores, own: Scores) -> str:
        return f"{self.heading.removesuffix(' %')} {self.cell(scores)} against {self.cell(own)}{self.unit}"


# In the study of docs/choosing.md, to take what predicts edges best costs several points of accuracy.
_LINKS = _Measure("link_auc", "link_auc", "link AUC", 3, "", "", "; edges are a weak guide to other tasks", "links_held_out")
_ACCURACY = _Measure(
    "strict_accuracy", "validation_accuracy", "strict accuracy %", 1, " %", "; perhaps neighbours are too unlike", ""
)


class BaselineComparison(NamedTuple):
    """A small table and one sentence.

    Attributes:
        headings: Of the columns.
        rows: A name and values each.
        sentence: Which is best.
        measure: The score that decides.
        rival: The best baseline by it, raw features among them.
        beaten: Whether the rival is better than the embedding by more than noise.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentence: str
    measure: str
    rival: str
    beaten: bool


def compare(method: Method, scores: Scores, baselines: Mapping[str, Scores]) -> BaselineComparison | None:
    """An embedding beside its baselines; None if there is nothing to compare.

    With labels, the best baseline is the one of highest validation accuracy, and strict accuracies are compared; without them,
    the link AUC decides both.

    Args:
        method: What made the embedding.
        scores: Of the embedding.
        baselines: Scores by the name of each method.
    """
    columns = [each for each in (_LINKS, _ACCURACY) if each.key in scores]
    compared = [(each, found) for each in columns if (found := _best(each, baselines)) is not None]
    if not compared:
        return None
    measure, rival = compared[-1]
    others = {name: each for name, each in baselines.items() if name != RAW.name}
    best = _best(measure, others)
    rows = [("raw features", baselines[RAW.name])] if RAW.name in baselines else []
    if best is not None:
        rows.append((f"{best}: the best of {len(others)} without training" if len(others) > 1 else best, others[best]))
    rows.append((f"{method.name}: this embedding", scores))
    ahead = measure.ahead(baselines[rival], scores)
    return BaselineComparison(
        ("", *(each.heading for each in columns)),
        tuple((name, *(each.cell(values) for each in columns)) for name, values in rows),
        _sentence(method, measure, rival, ahead, scores, baselines),
        measure.key,
        rival,
        ahead > 0,
    )


def _best(measure: _Measure, baselines: Mapping[str, Scores]) -> str | None:
    found = {
        name: each[measure.chosen_by] for name, each in baselines.items() if {measure.key, measure.chosen_by} <= each.keys()
    }
    # Of equals, the one that also predicts edges best.
    return max(found, key=lambda name: (found[name], baselines[name].get(_LINKS.key, 0.0)), default=None)


class Rival(NamedTuple):
    """The best baseline by one score.

    Attributes:
        called: What it is called.
        value: Its score.
        ahead: 1 if it is better than the embedding by more than noise, -1 if it is worse, else 0.
    """

    called: str
    value: str
    ahead: int


def rival_of(key: str, scores: Scores, baselines: Mapping[str, Scores]) -> Rival | None:
    """The best baseline by a score of the embedding, raw features among them; None if no baseline has it."""
    measure = next((each for each in (_LINKS, _ACCURACY) if each.key == key and key in scores), None)
    best = None if measure is None else _best(measure, baselines)
    if measure is None or best is None:
        return None
    value = f"{measure.cell(baselines[best])}{measure.unit}"
    return Rival(_called(best), value, measure.ahead(baselines[best], scores))


def few_edges(scores: Scores) -> str:
    """Says that the link AUC is by too few edges; "" if they are enough."""
    return _LINKS.few(scores)


def _called(baseline: str) -> str:
    return "raw features" if baseline == RAW.name else baseline


def _sentence(
    method: Method, measure: _Measure, rival: str, ahead: int, scores: Scores, baselines: Mapping[str, Scores]
) -> str:
    raw = rival == RAW.name
    called = _called(rival)
    if few := measure.few(scores):
        against = f"{measure.against(scores, baselines[rival])} of {called}"
        return f"{few} to say whether {method.name} is better: {against}; --hold-out 0.2 has more"
    if ahead < 0:
        against = measure.against(scores, baselines[rival])
        best = "" if raw and len(baselines) == 1 else "the best without training, "
        return f"{method.name} is better than {best}{called}: {against}"
    against = measure.against(baselines[rival], scores)
    free = "" if method.objective is None else f", and {'take' if raw else 'takes'} no training"
    advice = f"{free}; --method {rival} would take {'them' if raw else 'it'}{measure.limits}"
    if ahead == 0:
        noise = f"within {NOISE:g} standard errors"
        return f"{called} {'do' if raw else 'does'} as well as {method.name}, {noise}: {against}{advice}"
    reason = measure.reason if raw else ""
    return f"{called} {'are' if raw else 'is'} better than {method.name}: {against}{advice}{reason}"


def score_warnings(graph: Graph, method: Method, scores: Scores, baselines: Mapping[str, Scores]) -> list[str]:
    """Scores that should make a reader doubt the embedding, a line each."""
    lines, raw = [], baselines.get(RAW.name, {})
    comparison = compare(method, scores, baselines)
    if few := _LINKS.few(scores):
        if comparison is None or comparison.measure != _LINKS.key:
            lines.append(f"{few} to judge by: the link AUC of {_LINKS.cell(scores)} may be chance; --hold-out 0.2 has more")
    elif scores.get(_LINKS.key, 1.0) < NEAR_CHANCE:
        level = "below chance, 0.5" if scores[_LINKS.key] < 0.5 else f"near chance: 0.5 to {NEAR_CHANCE}"
        lines.append(f"the link AUC of {_LINKS.cell(scores)} is {level}{_why_chance(graph, raw)}")
    majority = scores.get("majority_accuracy", -1.0)
    if _ACCURACY.key in scores and scores[_ACCURACY.key] <= majority:
        lines.append(
            f"the accuracy of {_ACCURACY.cell(scores)} % is not above that of always guessing the commonest class, "
            f"{majority:.1f} %"
        )
    told = None
    if comparison is not None and comparison.beaten and (comparison.rival == RAW.name or comparison.measure == _ACCURACY.key):
        lines.append(comparison.sentence)
        told = comparison.rival, comparison.measure
    for each in (_ACCURACY, _LINKS):
        if told != (RAW.name, each.key) and each.key in raw and each.key in scores and each.ahead(raw, scores) > 0:
            lines.append(f"raw features are better than {method.name}: {each.against(raw, scores)}{each.reason}")
    return lines


def _why_chance(graph: Graph, raw: Scores) -> str:
    """What may be the reason for a link AUC near chance; "" if nothing is known."""
    # Of a graph in files, not all edges are looked at.
    if isinstance(graph, Graph) and graph.num_edges <= MOST_EDGES and _is_bipartite(graph):
        kinds = "--edges KIND,NAME,KIND=FILE tells two kinds of nodes apart"
        return f"; the graph is bipartite, where linked nodes need not be alike; {kinds}"
    if raw.get(_LINKS.key, 1.0) < NEAR_CHANCE:
        return f"; linked nodes are hardly more alike than others (raw features: {_LINKS.cell(raw)})"
    return ""


def _is_bipartite(graph: Graph) -> bool:
    """Whether every edge leads from one half of the nodes to the other.

    Then, and only then, each component falls apart in two where every node is doubled and edges lead from one copy to the
    other.
    """
    adjacency = abs(graph.to_scipy())
    adjacency = adjacency + adjacency.T
    doubled = sp.block_array([[None, adjacency], [adjacency, None]], format="csr")
    parts, twice = (connected_components(each, directed=False, return_labels=False) for each in (adjacency, doubled))
    return bool(twice == 2 * parts)
