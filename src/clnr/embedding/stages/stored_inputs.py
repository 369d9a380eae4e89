"""What an encoder is given in place of the features of a graph in files: fitted and computed some rows at a time."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from clnr.embedding.stages.block_passes import Chain, Passes
from clnr.engine import DeviceGraph
from clnr.engine.blocks import with_features
from clnr.engine.layer_pass import ReadRows
from clnr.methods.model import Model
from clnr.nn.inputs import STEPS, Input
from clnr.nn.layers import Parameters, add_prefix, sub_dict

_READ_NODES = 1 << 15


def fit_inputs(model: Model, passes: Passes) -> tuple[Parameters, DeviceGraph]:
    """As ``Model.fit_inputs``; walks are computed unless they are there, and their files are kept."""
    passes.run(*input_walks(model, passes))
    parameters, graph = Parameters(), passes.device_graph
    for place, part in model.input_places():
        blocks = functools.partial(_row_blocks, graph)
        fitted = part.fit_blocks(blocks, graph.graph.num_nodes, graph.num_features)
        parameters |= add_prefix(place, fitted)
        graph = _changed(part, fitted, graph, passes)
    return parameters, graph


def prepared(model: Model, parameters: Parameters, passes: Passes) -> DeviceGraph:
    """As ``Model.prepare``; walks are computed unless they are there, and their files are kept."""
    passes.run(*input_walks(model, passes))
    graph = passes.device_graph
    for place, part in model.input_places():
        graph = _changed(part, sub_dict(parameters, place), graph, passes)
    return graph


def _changed(part: Input, fitted: Parameters, graph: DeviceGraph, passes: Passes) -> DeviceGraph:
    """A graph with the features that an input makes when they are read."""
    if part.changes_nothing:
        return graph
    walked = walk_rows(passes, part.walk_columns) if part.walk_columns else None

    def change(x: Any, nodes: Any) -> Any:
        return part.change_rows(fitted, x, None if walked is None else walked(nodes).numpy())

    return with_features(graph, change, part.width(graph.num_features))


def _row_blocks(graph: DeviceGraph) -> Iterator[Any]:
    """The features of all nodes, some rows at a time."""
    assert graph.read is not None
    for start in range(0, graph.graph.num_nodes, _READ_NODES):
        yield graph.read(np.arange(start, min(start + _READ_NODES, graph.graph.num_nodes)))


def walk_widths(model: Model) -> set[int]:
    """How many columns the walks have that inputs put beside the features."""
    return {part.walk_columns for part in model.inputs} - {0}


def input_walks(model: Model, passes: Passes) -> list[Chain[None]]:
    """What makes these walks."""
    return [passes.walk(width, max(STEPS), STEPS) for width in sorted(walk_widths(model))]


def walk_rows(passes: Passes, width: int) -> ReadRows:
    """What reads where walks lead after each number of steps, side by side."""
    files = [passes.walk_files(width, step) for step in STEPS]
    return lambda nodes: torch.cat([each.rows(nodes) for each in files], 1)
