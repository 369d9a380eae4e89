"""embed_graph(): a graph in memory or in files becomes vectors, a model and scores, by one worker or many."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from clnr.embedding.baselines import Baselines
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitting import (
    Task,
    fit_readout,
    train,
    trained_model,
    with_readout,
)
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.result.node_ids import kind_numbers
from clnr.embedding.rows.passes import Passes
from clnr.embedding.rows.vectors import write_vectors
from clnr.embedding.rows.whole import RowMaker, Whole
from clnr.embedding.scoring.baseline_comparison import collapse_warnings, score_warnings
from clnr.embedding.scoring.judges import judge_for
from clnr.embedding.scoring.scores import effective_rank, labelled_nodes, score
from clnr.embedding.workspace import Workspace
from clnr.engine.blocks import in_blocks
from clnr.evaluation import HeldOutPairs, hold_out, without_pairs
from clnr.experiments.learn import supervision_for
from clnr.graph import Graph
from clnr.graph.csr import edge_keys, median_weight
from clnr.graph.folder import check_unchanged
from clnr.methods import Method
from clnr.methods.recipe import Recipe, untrained
from clnr.support.machine.memory import release_freed
from clnr.support.processes.workers import ALONE
from clnr.support.progress import QUIET, Bar
from clnr.support.stage_clock import stage
from clnr.support.storage import check_positive
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.structural import degree_features


def embed_graph(
    graph: Graph,
    asked: Recipe,
    settings: Settings,
    workspace: Workspace,
    compared: Collection[Method] = (),
    bar: Bar = QUIET,
) -> EmbeddingResult | None:
    """Train without some of the edges, score by those, and embed the whole graph. All workers call it; the first has a result.

    Args:
        graph: The graph, in memory or, where the workspace has blocks, in files.
        asked: All hyper-parameters.
        settings: How it is done.
        workspace: Where what is made is kept for the next step, and for a process that resumes a stopped run.
        compared: The baselines that are scored beside it.
        bar: Shows progress.
    """
    method = settings.method
    # What is held out, what of it a purpose chooses by, and what is left to score by.
    with stage("prepare"):
        _, recipe = supervision_for(method, graph, settings.seed, asked, settings.engine)
        held = hold_out(graph, settings.hold_out, settings.seed, kind_numbers(graph)) if settings.hold_out else None
        labelled = labelled_nodes(graph, settings.seed)
        judge, links = judge_for(settings.purpose, labelled, held, settings.seed)
        task = Task.of(graph, links, judge if settings.purpose or settings.tried else None)
        rows = _rows(graph, held, settings, workspace, bar)

    epochs = recipe.epochs if method.objective else 0
    with stage("train"), bar.training(f"{method.name} on {graph.num_nodes:,} nodes", epochs) as progress:
        checkpoint = settings.checkpoint_of(graph.digest, asked, workspace.checkpoint, bar)
        kept = workspace.once("model", lambda: train(rows, graph, method, recipe, settings, progress, checkpoint))
    if kept is None:
        return None
    if workspace.block_rows is None:
        # In memory, the other workers have left.
        settings, workspace = dataclasses.replace(settings, workers=ALONE), workspace.alone
    trained = trained_model(kept, rows, method, recipe, settings)
    with stage("fit the read-out"):
        learned = workspace.once("read-out", lambda: fit_readout(trained, rows, task, settings))
        assert learned is not None
        fitted = with_readout(trained, learned)
    with stage("baselines", whole=True):
        baselines = Baselines(graph, rows, task, settings, compared, fitted.model)
    fitted, told = baselines.choose(fitted)
    model = fitted.model
    # The vectors, from all edges; a device has one graph at a time.
    if held is not None:
        rows.close()
        release_freed()
        rows = _rows(graph, None, settings, workspace, bar)
    with stage("embed"):
        vectors = write_vectors(model, rows, graph, workspace)
        check_unchanged(graph)
    if not settings.workers.first:
        return None
    with stage("score"):
        compared_rows = baselines.rows(rows, labelled)
        scores, remarks, baseline_scores = score(
            labelled, links, model, fitted.cosines, lambda: vectors[labelled.nodes], compared_rows, settings
        )
        scores |= {**fitted.geometry, "effective_rank": effective_rank(vectors)}
        warnings = [
            *untrained(method, recipe),
            *told,
            *model.remarks(),
            *collapse_warnings(scores, vectors.shape[1]),
            *remarks,
            *score_warnings(model.method, scores, baseline_scores, settings.purpose),
            *baselines.remarks,
        ]
    rows.close()
    fingerprint = settings.fingerprint(graph.digest, asked)
    return EmbeddingResult(model, graph, vectors, fitted.losses, scores, tuple(warnings), baseline_scores, fingerprint)


def _rows(graph: Graph, held: HeldOutPairs | None, settings: Settings, workspace: Workspace, bar: Bar) -> RowMaker:
    """What makes rows of the nodes of a graph without the edges that are held out."""
    # Loops weigh the median of edges, so that the unit of weights has no effect.
    loop_weight = check_positive(median_weight(graph.incoming.weight))
    if workspace.block_rows is None:
        seen = graph if held is None else training_graph(without_pairs(graph, held.positives))
        return Whole(seen, settings.engine, loop_weight)
    keys = None if held is None else edge_keys(held.positives, graph.num_nodes)
    part = workspace.part("all" if held is None else "seen")
    return Passes(in_blocks(graph, loop_weight, keys), settings, part, workspace.block_rows, bar)


def training_graph(seen: Graph) -> Graph:
    """A graph without its held-out edges; structural features are computed again, so that they do not leak those edges."""
    structure = None if seen.info.encoder is None else FeatureEncoder.of(seen.info.encoder).structure
    if structure is None:
        return seen
    source, target, _ = seen.edges()
    return dataclasses.replace(seen, features=structure.features(degree_features(source, target, seen.num_nodes)))
