"""Baselines beside a method: fitted on the same graph, scored by the same edges and nodes, and taken where they are better."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from clnr.embedding.defaults import default_recipe
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.fitting import Fitted, GraphRows, Task, fit_readout, train, trained_model, with_readout
from clnr.embedding.rows.whole import Whole
from clnr.embedding.scoring.baseline_comparison import MOST_EDGES
from clnr.embedding.scoring.judges import JUDGES
from clnr.embedding.scoring.samples import Labelled
from clnr.embedding.scoring.scores import BaselineRows, cosines_of
from clnr.embedding.search.nodes import Nodes
from clnr.errors import ClnrError
from clnr.graph import Graph
from clnr.methods import RAW, Method
from clnr.methods.recipe import Recipe

MOST_NODES = 1_000_000
"""Baselines are not scored on a graph of more nodes."""


class Better(NamedTuple):
    """A baseline that is better for a purpose, and by how much, in words."""

    method: Method
    told: str


class Baselines:
    """The baselines of a job; from files, raw features alone."""

    def __init__(self, nodes: Nodes, training: GraphRows, task: Task, settings: Settings, compared: Collection[Method]):
        graph, self._task, self._settings = nodes.graph, task, settings
        self._nodes, self._training = nodes, training
        self._fitted: dict[Method, Fitted | ClnrError] = {}
        self._raw_cosines: np.ndarray[Any, Any] | None = None
        self.remarks: list[str] = []
        scored = task.links is not None or (graph.labels is not None and settings.evaluate)
        self._compared = [each for each in compared if each not in (RAW, settings.method)] if scored else []
        self._with_raw = bool(compared) and scored and settings.method != RAW and settings.workers.first
        if not isinstance(training, Whole):
            self.remarks += self._of_files() if scored else []
            self._compared = []
        elif compared and (graph.num_nodes > MOST_NODES or graph.num_edges > MOST_EDGES):
            reason = f"the graph has more than {MOST_NODES:,} nodes or {MOST_EDGES:,} edges"
            self.remarks += [f"baselines were not scored: {reason}"] if scored else []
            self._compared, self._with_raw = [], False

    def _of_files(self) -> list[str]:
        """What scores of a graph in files lack."""
        lines = ["from files, training-free baselines are not scored"]
        encoder = self._nodes.info.feature_encoder
        if self._task.links is not None and encoder is not None and encoder.structure is not None:
            lines.append("structural features include the held-out edges, so link scores may be slightly too high")
        return lines

    def fit(self, model: FittedModel) -> None:
        """Fit them without the held-out edges, at the width of a model."""
        if self._with_raw and self._task.links is not None:
            self._raw_cosines = cosines_of(self._training.features(self._task.ends), self._task.links)
        for method in self._compared:
            recipe = recipe_beside(method, model.method, model.recipe, self._nodes.graph)
            try:
                self._fitted[method] = self._fit(method, recipe)
            except ClnrError as error:
                self._fitted[method] = error

    def _fit(self, method: Method, recipe: Recipe) -> Fitted:
        rows, settings = self._training, self._settings
        kept = train(rows, self._nodes.graph, method, recipe, settings)
        fitted = trained_model(kept, rows, method, recipe, settings)
        learned = fit_readout(fitted, rows, self._task, settings, tried=False)
        assert learned is not None
        return with_readout(fitted, learned)

    def better(self, usual: Fitted) -> Better | None:
        """The baseline that is better for the purpose, if there is one."""
        judge = self._task.judge
        if judge is None or usual.outcome is None:
            return None
        fitted = {method: each for method, each in self._fitted.items() if isinstance(each, Fitted)}
        outcomes = {method: each.outcome for method, each in fitted.items() if each.outcome is not None}
        best = judge.best(usual.outcome, outcomes)
        if best is None:
            return None
        who = JUDGES[self._settings.purpose].who
        return Better(best, f"{who} choose {best.name}: {judge.told(outcomes[best], usual.outcome, usual.model.method.name)}")

    def swap(self, method: Method, usual: Fitted) -> Fitted:
        """A baseline that takes the place of the method, which is scored beside it from now on."""
        taken = self._fitted.pop(method)
        assert isinstance(taken, Fitted)
        self._fitted[usual.model.method] = usual
        return taken

    def rows(self, whole: GraphRows, labelled: Labelled) -> Mapping[Method, BaselineRows | ClnrError]:
        """What each of them is scored by, given what makes rows of the whole graph."""
        self._training = whole

        def embed(model: FittedModel) -> Callable[[], Any]:
            assert isinstance(whole, Whole)
            return lambda: whole.embed(model)[torch.from_numpy(labelled.nodes).to(whole.engine.device)]

        rows: dict[Method, BaselineRows | ClnrError] = {}
        if self._with_raw:
            rows[RAW] = BaselineRows(self._raw_cosines, lambda: whole.features(labelled.nodes))
        for method, each in self._fitted.items():
            rows[method] = each if isinstance(each, ClnrError) else BaselineRows(each.cosines, embed(each.model))
        return rows


def recipe_beside(baseline: Method, method: Method, recipe: Recipe, graph: Graph) -> Recipe:
    """A baseline's recipe for a graph, as wide as that of a method."""
    usual, _ = default_recipe(baseline, graph)
    same_width = "dimension" in baseline.keys and ("dimension" in method.keys or method.own_encoder is not None)
    return usual.but(dimension=recipe.dimension) if same_width else usual
