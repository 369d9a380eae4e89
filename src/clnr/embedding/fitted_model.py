"""A fitted model: what was learned from a graph, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from clnr.engine import Engine, View
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters, sub_dict
from clnr.support.machine.memory import enough_memory


class Provenance(NamedTuple):
    """What decided a training besides its graph, method, seed and recipe.

    ``hold_out`` is the share of edges that training did not see; there are no ``threads`` on a GPU, and no ``purpose`` of what
    is for everything.
    """

    hold_out: float
    device: str
    precision: str
    threads: int | None
    purpose: str | None


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A trained method: everything needed to embed a graph.

    Parameters are on the CPU; a node has ``features`` numbers, and a self-loop of ``loop_weight``: the median
    weight of the edges of the training graph.
    """

    method: Method
    seed: int
    recipe: Recipe
    parameters: Parameters
    features: int
    provenance: Provenance
    loop_weight: float = 1.0

    def parameters_on(self, engine: Engine) -> Parameters:
        """What it learned, where an engine computes."""
        return {name: value.to(engine.device) for name, value in self.parameters.items()}

    def remarks(self) -> list[str]:
        """What a user should know of what its read-out learned, a line each."""
        readout = self.method.build(self.recipe).readout
        return [] if readout is None else readout.remarks(sub_dict(self.parameters, "readout"))

    def embed(self, graph: Graph, engine: Engine) -> Array:
        """One row for each node of a graph, which need not be the one it was trained on."""
        model, parameters = self.method.build(self.recipe), self.parameters_on(engine)
        with enough_memory(), engine.use_threads():
            given = model.prepare(parameters, engine.to_device(graph.without_labels(), self.loop_weight), engine)
            return model.embed(parameters, engine.float32, View(given)).cpu().numpy()
