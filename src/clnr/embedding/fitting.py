"""A method is trained on a graph without its held-out edges, and its read-out is fitted: in memory, or from files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.rows.block_rows import BlockRows
from clnr.embedding.rows.whole import RowMaker, Whole
from clnr.embedding.scoring.judges import Judge, settle
from clnr.embedding.scoring.scores import alignment_scores, cosines_of
from clnr.embedding.workspace import Kept
from clnr.evaluation import HeldOutPairs
from clnr.evaluation.held_out import link_ends, renumbered
from clnr.experiments.learn import supervision_for, with_edge_noise
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.folder import check_unchanged
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters, add_prefix
from clnr.nn.readout import Readout
from clnr.nn.readout_blocks import Rows, fitted_nodes
from clnr.support.machine import memory
from clnr.support.stage_clock import stage
from clnr.training.checkpoint import Checkpoint
from clnr.training.loop import ProgressCallback, fit

_LOSSES, _COSINES, _OUTCOME = "losses", "cosines", "outcome"


class Task(NamedTuple):
    """What a job's methods are fitted and compared by, which are all the same for it.

    Attributes:
        sample: The nodes that read-outs are fitted to, and those below, sorted.
        ends: The nodes of held-out edges and non-edges that are scored by, sorted.
        links: These edges and non-edges, by the places of their nodes among ``ends``; None for none.
        judge: What chooses for a purpose, or would; None if nothing does.
    """

    sample: Array
    ends: Array
    links: HeldOutPairs | None
    judge: Judge | None

    @property
    def nodes(self) -> Array:
        """The nodes whose vectors are scored or chosen by, sorted."""
        return self.ends if self.judge is None else np.union1d(self.ends, self.judge.nodes)

    @classmethod
    def of(cls, graph: Graph, links: HeldOutPairs | None, judge: Judge | None) -> Task:
        ends, fitted = link_ends(links), fitted_nodes(graph.num_nodes).numpy()
        judged = ends if judge is None else judge.nodes
        by_place = None if links is None else renumbered(links, ends)
        return cls(np.unique(np.concatenate([fitted, ends, judged])), ends, by_place, judge)


class Fitted(NamedTuple):
    """A method that was trained without the held-out edges, and what its vectors achieve there.

    ``cosines`` are of held-out pairs and non-edges, ``outcome`` is the judge's, and ``told`` says what was chosen.
    ``geometry`` has alignment and uniformity.
    """

    model: FittedModel
    losses: tuple[float, ...]
    cosines: Array | None
    outcome: Array | None
    told: list[str]
    geometry: dict[str, float]


# -- training ---------------------------------------------------------------------------------------------------------------


def train(
    rows: RowMaker,
    graph: Graph,
    method: Method,
    recipe: Recipe,
    settings: Settings,
    progress: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
) -> Kept:
    """What inputs and encoder learn, and the losses; workers who share it all call this. ``graph`` has the labels."""
    engine, model = settings.engine, dataclasses.replace(method.build(recipe), readout=None)
    with memory.enough_memory(), engine.use_threads(), stage("prepare"):
        inputs, given = rows.fit_inputs(model)
        supervision, _ = supervision_for(method, graph, settings.seed, recipe, engine)
        given = with_edge_noise(model, recipe, given, engine, settings.seed)
    with memory.enough_memory():
        of_first = checkpoint if settings.workers.first else None
        fitted = fit(model, engine, given, recipe, settings.seed, progress, supervision, of_first, settings.workers)
    check_unchanged(graph)
    parameters = {name: value.detach().cpu() for name, value in (inputs | fitted.parameters).items()}
    return parameters | {_LOSSES: fitted.losses}, {"threads": fitted.threads}


def trained_model(kept: Kept, rows: RowMaker, method: Method, recipe: Recipe, settings: Settings) -> Fitted:
    """The model of what ``train`` gave, without its read-out."""
    parameters = dict(kept[0])
    losses = tuple(parameters.pop(_LOSSES).tolist())
    engine, threads = settings.engine, kept[1]["threads"]
    provenance = Provenance(float(settings.hold_out), engine.device.type, engine.precision, threads, settings.purpose)
    of_graph = rows.device_graph.num_features, provenance, rows.device_graph.loop_weight
    return Fitted(FittedModel(method, settings.seed, recipe, parameters, *of_graph), losses, None, None, [], {})


# -- the read-out -----------------------------------------------------------------------------------------------------------


def fit_readout(trained: Fitted, rows: RowMaker, task: Task, settings: Settings, tried: bool = True) -> Kept | None:
    """What the read-out learns, and what vectors without the held-out edges achieve; by the first worker.

    Where values of hyper-parameters are ``tried``, the purpose chooses between them.
    """
    model = trained.model
    built = model.method.build(model.recipe)
    readout, of_graph = built.readout, None
    with memory.enough_memory(), torch.no_grad(), settings.engine.use_threads():
        given = rows.prepared(built, model.parameters_on(settings.engine))
        if readout is not None:
            sample = task.sample
            of_graph = rows.readout_rows(model, sample) if isinstance(rows, Whole) else BlockRows(model, rows, sample)
        vectors = rows.some(model, task.nodes) if readout is None and len(task.nodes) else torch.empty(0, 0)
        # What passes have freed would else be held beside the rows that the read-out is fitted to.
        memory.release_freed()
        if not settings.workers.first:
            return None
        if readout is None or of_graph is None:
            kept = _achieved(task, lambda nodes: vectors[torch.from_numpy(np.searchsorted(task.nodes, nodes))])
        else:
            kept = _fit(readout, model, of_graph, task, settings, tried)
        kept[1]["geometry"] = alignment_scores(with_readout(trained, kept).model, settings.engine, given)
        check_unchanged(rows.device_graph.graph)
        return kept


def _fit(readout: Readout, model: FittedModel, rows: Rows, task: Task, settings: Settings, tried: bool) -> Kept:
    learned, sampled = readout.fit_blocks(rows)
    fitted, judge = readout.fit_rows(sampled), task.judge
    changes, told = dict[str, Any](), list[str]()
    if tried and judge is not None and settings.tried:
        places = rows.places(judge.nodes)
        made = readout.try_others(sampled, [_readout_of(model, each) for each in settings.tried], places)
        changes, told = settle(settings, judge, readout.vectors(fitted, sampled, places), made)
    if changes:
        readout = _readout_of(model, changes)
        fitted = readout.fit_rows(sampled)
    tensors, _ = _achieved(task, lambda nodes: readout.vectors(fitted, sampled, rows.places(nodes)))
    learned = {name: value.cpu() for name, value in add_prefix("readout", learned | fitted).items()}
    return learned | tensors, {"changes": changes, "told": told}


def with_readout(trained: Fitted, kept: Kept) -> Fitted:
    """A model with what ``fit_readout`` gave."""
    learned, notes = dict(kept[0]), kept[1]
    cosines, outcome = (learned.pop(name).numpy() if name in learned else None for name in (_COSINES, _OUTCOME))
    recipe = trained.model.recipe.but(**notes.get("changes", {}))
    model = dataclasses.replace(trained.model, recipe=recipe, parameters=trained.model.parameters | learned)
    return Fitted(model, trained.losses, cosines, outcome, notes.get("told", []), notes.get("geometry", {}))


def _readout_of(model: FittedModel, changes: dict[str, Any]) -> Readout:
    readout = model.method.build(model.recipe.but(**changes)).readout
    assert readout is not None
    return readout


def _achieved(task: Task, at: Callable[[Array], Tensor]) -> Kept:
    """What vectors of the nodes of a task achieve."""
    achieved: Parameters = {}
    if task.links is not None:
        achieved[_COSINES] = torch.from_numpy(cosines_of(at(task.ends), task.links))
    if task.judge is not None:
        achieved[_OUTCOME] = torch.from_numpy(task.judge.outcome(at(task.judge.nodes)))
    return achieved, {}
