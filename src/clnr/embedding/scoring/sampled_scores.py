"""What an embedding in shards is scored by: samples of held-out edges and labelled nodes, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch

from clnr import rng
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.scoring.job_scores import BaselineRows, Samples, Scorer, cosines_of
from clnr.embedding.search.nodes import sample_nodes
from clnr.engine import DeviceGraph, Engine, View, unit_rows
from clnr.evaluation import geometry
from clnr.evaluation.held_out import HeldOutPairs, link_ends
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import RAW
from clnr.tables.table_graph import read_table_info

MOST_LABELLED = 50_000
"""The most labelled nodes that are scored by."""
MEASURED = 5_000
"""So many nodes, drawn uniformly, stand for all in the effective rank."""
# Taken at a time.
_BLOCK_NODES = 256
_BLOCK_LABELS = 1 << 22

ReadVectors = Callable[[Array], Array]
"""The vectors of some nodes, which are sorted."""


def file_samples(
    model: FittedModel,
    settings: Settings,
    seen: DeviceGraph,
    links: HeldOutPairs | None,
    given: DeviceGraph,
    read_vectors: ReadVectors,
    most_rows: int,
    width: int,
    link_rows: Array | None,
    baselines: bool,
) -> Samples:
    """What an embedding of a graph folder is scored by: samples of held-out edges and labelled nodes, in bounded memory.

    Held-out edges are scored by vectors of their nodes that were computed without these edges; labels by the vectors that were
    written.

    ``seen`` is the graph without the held-out edges, ``given`` the same with the features that the encoder is given;
    ``link_rows`` are the vectors of ``link_ends``, None to compute them here, from ``most_rows`` at a time.
    """
    folder, ends = seen.graph, link_ends(links)
    labelled, labels, total = labelled_nodes(folder, settings.seed) if settings.evaluate else (np.empty(0, np.int64), None, 0)
    raw, renumbered = cast(Any, seen.read), None if links is None else _renumbered(links, ends)

    def cosines() -> Array | None:
        if renumbered is None:
            return None
        rows = sampled_rows(model, settings.engine, given, ends, most_rows) if link_rows is None else link_rows
        return cosines_of(torch.from_numpy(rows), renumbered)

    raw_rows = BaselineRows(lambda: cosines_of(raw(ends), renumbered), lambda: raw(labelled))
    return Samples(
        graph=folder,
        labelled=labels_alone(labels, folder.name),
        links=renumbered,
        cosines=cosines,
        rows=lambda: read_vectors(labelled),
        geometry=lambda: _geometry(model, settings.engine, given, read_vectors),
        width=width,
        baselines={RAW: raw_rows} if baselines and model.method != RAW else {},
        remarks=lambda scorer: _remarks(folder, links, scorer, total),
    )


def sampled_rows(model: FittedModel, engine: Engine, device_graph: DeviceGraph, nodes: Array, most_rows: int) -> Array:
    """The embedding of some nodes of a graph in files, from all that they reach, with a model that embeds in blocks.

    Of nodes that reach more than ``most_rows`` others, fewer are taken at a time.
    """
    built, parameters = model.method.build(model.recipe), model.parameters_on(engine)
    width = built.encoder.width(model.features)
    rows = np.empty((len(nodes), width), np.float32)
    todo = [(at, min(at + _BLOCK_NODES, len(nodes))) for at in range(0, len(nodes), _BLOCK_NODES)]
    while todo:
        start, stop = todo.pop()
        operators = engine.float32.sampled_operators(View(device_graph), torch.from_numpy(nodes[start:stop]))
        reached = operators.within(model.recipe.layers).nodes
        if reached is not None and len(reached) > most_rows and stop - start > 1:
            middle = (start + stop) // 2
            todo += [(start, middle), (middle, stop)]
            continue
        rows[start:stop] = built.embed_layer(parameters, operators).float().numpy(force=True)
    return rows


def _renumbered(links: HeldOutPairs, ends: Array) -> HeldOutPairs:
    """Held-out pairs and non-edges by the places of their nodes among ``ends``."""
    positives, negatives, linked = (np.searchsorted(ends, pairs) for pairs in (links.positives, links.negatives, links.linked))
    return HeldOutPairs(positives, negatives, None if links.kinds is None else links.kinds[ends], linked)


def labelled_nodes(folder: Graph, seed: int) -> tuple[Array, Array | None, int]:
    """A sample of the nodes with a label, their labels, and how many have one; labels are read in parts."""
    if folder.labels is None:
        return np.empty(0, np.int64), None, 0
    sample, total = np.empty(0, np.int64), 0
    for start in range(0, folder.num_nodes, _BLOCK_LABELS):
        nodes = start + np.flatnonzero(folder.check_labels(folder.labels[start : start + _BLOCK_LABELS], start) >= 0)
        total += len(nodes)
        # Of all labelled nodes, those with the smallest draws: the same sample, however labels are read.
        candidates = np.concatenate([sample, nodes])
        draws = rng.draw(rng.key(seed, "labelled"), torch.from_numpy(candidates)).numpy()
        sample = candidates[np.argsort(draws, kind="stable")[:MOST_LABELLED]]
    nodes = np.sort(sample)
    return nodes, np.asarray(folder.labels[nodes], np.int64), total


def labels_alone(labels: Array | None, name: str) -> Graph:
    """A graph with nothing but labels, which a split is drawn from."""
    count = 0 if labels is None else len(labels)
    return Graph.from_edges([], [], np.zeros((count, 0), np.float32), labels=labels, name=name)


def _geometry(model: FittedModel, engine: Engine, seen: DeviceGraph, read_vectors: ReadVectors) -> dict[str, float]:
    """As of any graph; alignment and uniformity with the columns' moments over the nodes that they are measured on."""
    folder = seen.graph
    rank = {"effective_rank": geometry.effective_rank(torch.from_numpy(read_vectors(sample_nodes(folder.num_nodes, MEASURED))))}
    built, count = model.method.build(model.recipe), folder.num_nodes
    if built.objective is None or not model.method.symmetric_views:
        return rank
    measured = torch.arange(min(count, model.recipe.sampled_nodes or _BLOCK_NODES))
    some = rng.permute(rng.key(model.seed, "measured"), measured, count)
    views = built.augment(seen, model.seed, "measure", 0)
    projected = built.project(model.parameters_on(engine), engine.float32, views, some, sampled=True)
    u, v = (unit_rows(rows) for rows in projected[:2])
    uniformity = (geometry.uniformity(u) + geometry.uniformity(v)) / 2
    return {"alignment": geometry.alignment(u, v), "uniformity": uniformity, **rank}


def _remarks(folder: Graph, links: HeldOutPairs | None, scorer: Scorer, labelled: int) -> list[str]:
    """What the scores are of."""
    of = [] if links is None else [f"{links.positives.shape[1]:,} held-out edges and as many non-edges"]
    if scorer.labelled is not None:
        of.append(f"{len(scorer.labelled[0]):,} of {labelled:,} labelled nodes")
    of.append(f"{min(folder.num_nodes, MEASURED):,} nodes for the rank")
    lines = [f"scores are computed on samples: {', '.join(of)}; from files, training-free baselines are not scored"]
    encoder = read_table_info(folder).feature_encoder
    if links is not None and encoder is not None and encoder.structure is not None:
        lines.append("structural features include the held-out edges, so link scores may be slightly too high")
    return lines
