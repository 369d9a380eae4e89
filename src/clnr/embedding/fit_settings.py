"""How to train on a user's graph: method, recipe, checkpoint, workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clnr import methods
from clnr.embedding.defaults import TRIED, Choice, default_recipe
from clnr.engine import Engine
from clnr.errors import DataError, MethodError, RecipeError
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.arguments import check_hold_out, check_seed, check_type
from clnr.support.humanize import plural
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.progress import Bar
from clnr.training.checkpoint import Checkpoint
from clnr.training.fingerprint import fingerprint

HOLD_OUT = 0.05
"""The default share of edges that are held out of training, to score by."""


@dataclass(frozen=True, eq=False)
class Settings:
    """How to train on a graph.

    Attributes:
        method: What to train.
        engine: Where to compute.
        recipe: All hyper-parameters, or some by name; the others are chosen for the graph.
        changes: Hyper-parameters that are set in any case.
        effort: Hyper-parameters that an effort sets, unless a recipe or a change does.
        seed: Decides everything random.
        hold_out: The share of edges that training does not see, to score by; 0 for none.
        checkpoint: The file that the state of training is saved to, once a minute; None for none.
        resume: Whether to continue from the checkpoint, if there is one.
        purpose: What the vectors are for, if not for everything: one of ``PURPOSES``.
        evaluate: Whether to evaluate the embedding by labels, if there are any.
        baselines: Whether to score raw features and training-free methods beside it, alike.
        workers: The processes that share the training; the first evaluates and writes.
    """

    method: Method
    engine: Engine
    recipe: Recipe | Mapping[str, Any] | None = None
    changes: Mapping[str, Any] | None = None
    effort: Mapping[str, Any] | None = None
    seed: int = 0
    hold_out: float = HOLD_OUT
    checkpoint: Path | None = None
    resume: bool = False
    purpose: str | None = None
    evaluate: bool = True
    baselines: bool = True
    workers: Workers = ALONE

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_hold_out(self.hold_out)
        for name in ("resume", "evaluate", "baselines"):
            check_type(name, getattr(self, name), bool | np.bool_, "True or False")
        if not isinstance(self.recipe, Recipe | Mapping | None):
            raise RecipeError(f"a recipe is a Recipe or hyper-parameters by name, not a {type(self.recipe).__name__}")

    @property
    def fixed(self) -> dict[str, Any]:
        """The hyper-parameters that the user has set by name."""
        return {**(self.recipe if isinstance(self.recipe, Mapping) else {}), **(self.changes or {})}

    @property
    def compared(self) -> tuple[Method, ...]:
        """The baselines that are scored beside the embedding."""
        return methods.BASELINES if self.purpose else methods.QUICK_BASELINES if self.baselines else ()

    @property
    def tried(self) -> tuple[dict[str, Any], ...]:
        """Values of hyper-parameters that the user has not set, of which labels or edges choose, or would choose.

        Beside a method that does not train, and has no purpose, trying them would take too long.
        """
        some = TRIED if self.purpose or (self.evaluate and self.method.objective is not None) else ()
        return tuple(each for each in some if each.keys() <= {*self.method.keys} - {*self.fixed})

    def recipe_for(self, graph: Graph) -> tuple[Recipe, list[Choice]]:
        """The recipe for a graph, and the choices in it that follow from the graph."""
        if isinstance(self.recipe, Recipe):
            return self._fitting(self.recipe.but(**self.fixed), graph), []
        # An encoder of the user's own has a number of features, to which none are added unasked.
        known = self.fixed if self.method.own_encoder is None else {*self.fixed, "structure"}
        recipe, choices = default_recipe(self.method, graph, graph.info.is_structural, known)
        return self._fitting(recipe.but(**{**(self.effort or {}), **self.fixed}), graph), choices

    def _fitting(self, recipe: Recipe, graph: Graph) -> Recipe:
        """A recipe whose widths are those of an encoder of the user's own, if there is one."""
        if self.method.own_encoder is None:
            return recipe
        model, features = self.method.build(recipe), graph.num_features
        try:
            width = model.encoder.width(model.input_width(features))
        except MethodError as error:
            added = model.input_width(features) - features
            widths = f"; the graph has {features:,}, and structure={recipe.structure} adds {added:,}"
            raise MethodError(f"{error}{widths if added else ''}") from error
        return recipe.but(**{key: width for key in ("hidden", "dimension") if key not in self.method.keys})

    def check_size(self, workers: int, recipe: Recipe, nodes: int) -> None:
        """Fail if a graph of ``nodes`` nodes is too small to embed, or to be shared by so many workers."""
        if nodes < 3:
            raise DataError(f"the graph has {plural(nodes, 'node')}, and an embedding needs 3 to compare")
        if workers > 1:
            self.method.check_shared(recipe)
            rows = min(nodes, recipe.sampled_nodes or nodes)
            if workers > rows:
                raise RecipeError(f"{workers} workers cannot share {plural(rows, 'node')} of a step; start at most {rows}")

    def checkpoint_of(self, graph: str, recipe: Recipe, usual: Path | None, bar: Bar) -> Checkpoint | None:
        """The checkpoint of this very training on the graph with a digest, by default in a file; None if there is none."""
        path = self.checkpoint or usual
        if path is None:
            return None
        if self.resume:
            missing = f"there is no checkpoint {path}: training starts from scratch"
            bar.note(f"resuming from {path}" if path.is_file() else missing)
        return Checkpoint(path, self.fingerprint(graph, recipe), self.resume, self.engine.choices)

    def fingerprint(self, graph: str, recipe: Recipe) -> dict[str, Any]:
        """All that decides the result on the graph with a digest; with another, nothing can be resumed."""
        more = {"hold_out": float(self.hold_out), "name": self.method.name}
        more |= {"purpose": self.purpose, "evaluate": bool(self.evaluate), "baselines": bool(self.baselines)}
        return fingerprint(graph, self.method, recipe, self.seed, self.engine, **more)
