"""The geometry of a trained method's embedding."""

from __future__ import annotations

from typing import NamedTuple

import torch

from clnr.engine import DeviceGraph, Engine, unit_rows
from clnr.evaluation import geometry
from clnr.graph import Split
from clnr.methods import UNIFORM, Method
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters
from clnr.training.loop import TrainingResult


class TrainedEmbedding(NamedTuple):
    """The embedding of the whole graph after a training; ``fitted`` is what the training loop returned."""

    seed: int
    recipe: Recipe
    device_graph: DeviceGraph
    fitted: TrainingResult
    z: torch.Tensor


def geometry_metrics(method: Method, engine: Engine, learned: TrainedEmbedding, split: Split) -> dict[str, float]:
    """Alignment, uniformity and effective rank."""
    u, v = positive_pairs(method, engine, learned, split)
    return {
        "alignment": geometry.alignment(u, v),
        "uniformity": (geometry.uniformity(u) + geometry.uniformity(v)) / 2,
        "effective_rank": geometry.effective_rank(learned.z),
    }


def positive_pairs(method: Method, engine: Engine, learned: TrainedEmbedding, split: Split) -> list[torch.Tensor]:
    """Validation nodes in two views unseen in training, as unit rows."""
    seed, recipe, device_graph, fitted, z = learned
    nodes = torch.tensor(split.validation, device=z.device)
    return [unit_rows(rows) for rows in fresh_views(method, recipe, fitted.parameters, engine, device_graph, seed, nodes)]


@torch.no_grad()
def fresh_views(
    method: Method,
    recipe: Recipe,
    parameters: Parameters,
    engine: Engine,
    device_graph: DeviceGraph,
    seed: int,
    nodes: torch.Tensor,
) -> list[torch.Tensor]:
    """Rows of some nodes in two views unseen in training, on which the geometry is measured.

    As the objective sees them if the method has symmetric views; else embeddings of two views with CLNR's augmentations at
    the rates of the recipe. Where nothing is trained but there is a read-out, embeddings of its own views.
    """
    model = method.build(recipe)
    symmetric = method.symmetric_views
    drawn = method if symmetric else method.but(method.name, method.summary, views=(UNIFORM, UNIFORM), objective=None)
    views = drawn.build(recipe).augment(device_graph, seed, "measure", 0)
    if symmetric and (method.objective is not None or not method.readout):
        return model.project(parameters, engine, views, nodes, sampled=device_graph.in_blocks)[:2]
    return [model.embed(parameters, engine, view)[nodes] for view in views]
