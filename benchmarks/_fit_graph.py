"""A graph trained on, embedded and scored, without a plan and without a folder: for benchmarks and tests."""

from __future__ import annotations

from collections.abc import Collection

from clnr.embedding.embed import embed_graph
from clnr.embedding.fit_settings import HOLD_OUT, Settings
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.workspace import Workspace
from clnr.engine import Engine
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe


def fit_graph(
    graph: Graph,
    method: Method,
    recipe: Recipe,
    seed: int,
    engine: Engine,
    *,
    hold_out: float = HOLD_OUT,
    evaluate: bool = True,
    baselines: Collection[Method] = (),
) -> EmbeddingResult:
    """Train on a graph without some of its edges, score by those edges, and embed the whole graph; nothing is planned.

    Args:
        graph: The graph.
        method: What to train.
        recipe: Its hyper-parameters.
        seed: Decides everything random.
        engine: Where to compute.
        hold_out: The share of edges that training does not see; 0 for none, and no score by them.
        evaluate: Whether to evaluate the embedding by labels, if there are any.
        baselines: Methods without an objective to score beside it.
    """
    settings = Settings(method, engine, recipe=recipe, seed=seed, hold_out=hold_out, evaluate=evaluate)
    result = embed_graph(graph, recipe, settings, Workspace(None), baselines)
    assert result is not None
    return result
