"""Baselines beside a method: fitted on the same graph, scored by the same edges and nodes, and taken where they are better."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from clnr.embedding.defaults import default_recipe
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.fitting import Fitted, Task, fit_readout, train, trained_model, with_readout
from clnr.embedding.rows.whole import RowMaker, Whole
from clnr.embedding.scoring.scores import BaselineRows, Labelled, cosines_of
from clnr.errors import ClnrError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import RAW, Method
from clnr.methods.recipe import Recipe

MOST_NODES, MOST_EDGES = 1_000_000, 20_000_000
"""Baselines are not scored on a graph of more nodes, or of more edges, both directions counted."""


class Baselines:
    """The baselines of a job, fitted without the held-out edges, as wide as a model; from files, raw features alone."""

    def __init__(
        self,
        graph: Graph,
        training: RowMaker,
        task: Task,
        settings: Settings,
        compared: Collection[Method],
        model: FittedModel,
    ):
        self._judge, self._purpose = task.judge, settings.purpose
        self._fitted: dict[Method, Fitted | ClnrError] = {}
        self._raw_cosines: Array | None = None
        self.remarks: list[str] = []
        if task.links is None and (graph.labels is None or not settings.evaluate):
            compared = ()
        elif not isinstance(training, Whole):
            self.remarks.append("from files, training-free baselines are not scored")
            if task.links is not None and graph.info.is_structural:
                known = "structural features include the held-out edges"
                self.remarks.append(f"{known}, so link scores may be slightly too high")
        elif compared and (graph.num_nodes > MOST_NODES or graph.num_edges > MOST_EDGES):
            reason = f"the graph has more than {MOST_NODES:,} nodes or {MOST_EDGES:,} edges"
            self.remarks.append(f"baselines were not scored: {reason}")
            compared = ()
        self._with_raw = bool(compared) and settings.method != RAW and settings.workers.first
        if self._with_raw and task.links is not None:
            self._raw_cosines = cosines_of(training.features(task.ends), task.links)
        for method in compared if isinstance(training, Whole) else ():
            if method in (RAW, settings.method):
                continue
            try:
                recipe = recipe_beside(method, model.method, model.recipe, graph)
                kept = train(training, graph, method, recipe, settings)
                trained = trained_model(kept, training, method, recipe, settings)
                learned = fit_readout(trained, training, task, settings, tried=False)
                assert learned is not None
                self._fitted[method] = with_readout(trained, learned)
            except ClnrError as error:
                self._fitted[method] = error

    def choose(self, usual: Fitted) -> tuple[Fitted, list[str]]:
        """What a purpose takes, the method or a baseline that is better, and what was chosen, a line each.

        The method is scored beside a baseline that takes its place. Without a purpose the line says what would be taken.
        """
        judge, purpose = self._judge, self._purpose
        if judge is None or usual.outcome is None:
            return usual, usual.told
        fitted = {method: each for method, each in self._fitted.items() if isinstance(each, Fitted)}
        outcomes = {method: each.outcome for method, each in fitted.items() if each.outcome is not None}
        best = judge.best(usual.outcome, outcomes)
        if best is None:
            return usual, usual.told
        method = usual.model.method
        line = judge.in_words(purpose, best.name, outcomes[best], usual.outcome, method.name)
        if purpose is None:
            return usual, [line]
        del self._fitted[best]
        self._fitted[method] = usual
        return fitted[best], [line, *usual.told]

    def rows(self, whole: RowMaker, labelled: Labelled) -> Mapping[Method, BaselineRows]:
        """What each of them is scored by, given what makes rows of the whole graph."""
        rows: dict[Method, BaselineRows] = {}
        if self._with_raw:
            rows[RAW] = self._raw_cosines, partial(whole.features, labelled.nodes)
        for method, each in self._fitted.items():
            if isinstance(each, Fitted):
                rows[method] = each.cosines, partial(whole.some, each.model, labelled.nodes)
            else:
                rows[method] = each
        return rows


def recipe_beside(baseline: Method, method: Method, recipe: Recipe, graph: Graph) -> Recipe:
    """A baseline's recipe for a graph, as wide as that of a method."""
    usual, _ = default_recipe(baseline, graph)
    same_width = "dimension" in baseline.keys and ("dimension" in method.keys or method.own_encoder is not None)
    return usual.but(dimension=recipe.dimension) if same_width else usual
