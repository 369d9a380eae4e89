"""How many columns of rows the passes over a graph in files gather, keep on disk, and fit."""

from __future__ import annotations

import operator
from typing import NamedTuple

from clnr.embedding.fit_settings import Settings
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.structure import STEPS


class PassColumns(NamedTuple):
    """Columns of rows that walks, the encoder's layers and the read-out make.

    Attributes:
        passes: How often all edges are read, for walks and the read-out.
        gathered: Columns that are gathered for each edge, in all passes.
        widest: Columns that a pass gathers, at most.
        kept: Columns of all nodes that are on disk, at most.
        fitted: Columns of the nodes that the read-out is fitted to.
    """

    passes: int = 0
    gathered: int = 0
    widest: int = 0
    kept: int = 0
    fitted: int = 0

    @classmethod
    def of(cls, settings: Settings, model: Model, recipe: Recipe, features: int) -> PassColumns:
        products = [] if model.readout is None else model.readout.products({}, model.encoder.num_outputs)
        sources = [product.source for _, product in products]
        inputs = {part.walk_columns for part in model.inputs} - {0}
        walks = inputs | {source.walk_columns for source in sources if source.walk_columns}
        encoded = model.encoder.width(features) * model.encoder.num_outputs
        # How often the encoder's rows are propagated, and the features; and the sum of all, at last.
        hops = [
            max((product.hops for _, product in products if not product.source.walk_columns and wanted(product)), default=0)
            for wanted in (lambda each: each.source.encoder is not None, lambda each: each.source.encoder is None)
        ]
        widths = encoded, features
        graphs = 2 if settings.hold_out else 1
        steps, last = max(STEPS), max(hops) if products else 0
        passes = graphs * steps * len(walks) + sum(hops) + last
        per_edge = graphs * steps * sum(walks) + sum(map(operator.mul, hops, widths)) + last * recipe.dimension
        of_products = [width for width, hop in zip(widths, hops, strict=True) if hop]
        widest = max([*walks, *of_products, recipe.dimension if last else 0], default=0)
        # What is on disk at a time: two of a walk's steps; layers, and the rows of the last one; with a read-out, the encoder's
        # rows beside two propagated matrices, or beside sums and vectors. Walks stay, the inputs' also without held-out edges.
        layers = min(2, recipe.layers - 1) * recipe.hidden if "layers" in settings.method.keys else 0
        stages = [2 * max(walks, default=0), layers + encoded]
        again = (graphs - 1) * len(STEPS) * sum(inputs)
        of_whole = again + max(*stages, encoded + 2 * recipe.dimension if products else 0)
        kept = len(STEPS) * sum(walks) + max(of_whole, encoded + 2 * max(of_products, default=0) if products else 0)
        fitted = sum((hop + 1) * width for hop, width in zip(hops, widths, strict=True)) if products else 0
        fitted += len(STEPS) * sum(each.walk_columns for each in sources)
        return cls(passes, per_edge, widest, kept, fitted)
