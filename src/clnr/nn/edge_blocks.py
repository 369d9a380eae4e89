"""The blocks of a read-out that come from edges alone, and those that say what each block weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.inputs import STEPS
from clnr.nn.layers import Parameters
from clnr.nn.readout_blocks import Block, Family, Measure, Product, Source

_NEARLY_EQUAL = 0.95

MIXES: dict[str, frozenset[Family]] = {
    "all": frozenset(Family),
    "features": frozenset({Family.FEATURES}),
    "own": frozenset({Family.FEATURES, Family.OWN}),
    "propagated": frozenset({Family.PROPAGATED}),
    "neighbors": frozenset({Family.PROPAGATED, Family.NEIGHBORS}),
    "neighbors+walks": frozenset({Family.PROPAGATED, Family.NEIGHBORS, Family.WALKS}),
    "features+propagated": frozenset({Family.FEATURES, Family.PROPAGATED}),
    "propagated+walks": frozenset({Family.PROPAGATED, Family.WALKS}),
    "features+propagated+walks": frozenset({Family.FEATURES, Family.PROPAGATED, Family.WALKS}),
    "no-walks": frozenset(Family) - {Family.WALKS},
    "walks": frozenset({Family.WALKS}),
}
"""Which families of columns a read-out may have."""


@dataclass(frozen=True)
class Walks(Block):
    """Where walks of 4, 8 and 16 steps lead, from edges alone."""

    size: ClassVar[float] = 0.7

    walk_columns: int = hyper_parameter(
        128, 0, 65536, "columns from edges alone, for each of 4, 8 and 16 steps, in the read-out; 0 for none"
    )

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        return [len(STEPS) * self.walk_columns] if self.walk_columns else []

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        return [Product(Source(walk_columns=self.walk_columns))] if self.walk_columns else []


@dataclass(frozen=True)
class EdgeWeight(Block):
    """No columns: what matrices that come from edges weigh beside those that come from nodes' own features."""

    edge_weight: str = hyper_parameter(
        "equal",
        choices=("equal", "measured"),
        meaning="what columns that come from edges weigh in the read-out: as much as others, or as much as edges tell",
        source="ours",
    )

    def weigh(self, sizes: list[float], families: list[Family], measure: Measure) -> tuple[list[float], Parameters]:
        import torch

        if self.edge_weight == "equal":
            return sizes, {}
        own = tuple(number for number, each in enumerate(families) if each.of_node)
        weight = 1.0
        if own and len(own) < len(families):
            weight = measure(own)
            sizes = [size if each.of_node else weight * size for size, each in zip(sizes, families, strict=True)]
        return sizes, {"weight": torch.tensor(weight)}

    def remarks(self, parameters: Parameters) -> list[str]:
        weight = float(parameters.get("weight", 1.0))
        if weight > _NEARLY_EQUAL:
            return []
        return [f"edges are weakly informative here: they weigh {weight:.2f} in the vectors, a node's own features 1"]


@dataclass(frozen=True)
class Mix(Block):
    """No columns: which of the read-out's families of columns the vectors have. A purpose chooses it."""

    mix: str = hyper_parameter(
        "all", choices=tuple(MIXES), meaning="which columns the read-out takes; --for chooses it", source="ours"
    )

    def weigh(self, sizes: list[float], families: list[Family], measure: Measure) -> tuple[list[float], Parameters]:
        return [size if each in MIXES[self.mix] else 0.0 for size, each in zip(sizes, families, strict=True)], {}
