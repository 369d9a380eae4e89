"""The layouts of a report's map: a row each. Importing this needs no torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clnr.support.arguments import check_choice
from clnr.support.lazy import check_installed, import_optional

if TYPE_CHECKING:
    from clnr.embedding.search.neighbors import NeighborList
    from clnr.graph.csr import Array

MOST_MAP_NODES = 100_000
"""The most nodes that a map shows."""
_PERPLEXITY = 30


@dataclass(frozen=True)
class MapLayout:
    """How nodes are placed on a map.

    Attributes:
        summary: What it is, in a few words.
        move: Points in the plane, [n, 2], from those that all layouts start from, the unit rows of the embedding, the nearest
            neighbours of every node, and a seed.
        needs: The module of an optional package; None for none.
        extra: The extra of clnr that installs it.
    """

    summary: str
    move: Callable[[Array, Array, NeighborList, int], Array]
    needs: str | None = None
    extra: str | None = None

    def draw(self, z: Array, near: NeighborList, seed: int) -> Array:
        """Points in the plane from an embedding and the nearest neighbours of every node."""
        from clnr.embedding.reporting.projection import principal, unit

        rows = unit(z)
        start = principal(rows)
        can_move = near.nodes.shape[1] > 0 and len(z) >= 3 and z.shape[1] > 0
        return self.move(start, rows, near, seed) if can_move else start


def check_layout(name: str) -> str:
    """The name of a layout; an error if there is none of this name, or its package is not installed."""
    layout = MAP_LAYOUTS[check_choice("layout", name, MAP_LAYOUTS)]
    if layout.needs is not None:
        check_installed(layout.needs, f"the layout {name}", layout.extra)
    return name


def _fast(start: Array, rows: Array, near: NeighborList, seed: int) -> Array:
    from clnr.embedding.reporting.projection import layout

    return layout(start, near, seed)


def _tsne(start: Array, rows: Array, near: NeighborList, seed: int) -> Array:
    from sklearn.manifold import TSNE

    # Its forces need a start near the origin (Kobak and Berens, 2019).
    small = start * (1e-4 / start[:, 0].std())
    return TSNE(perplexity=min(_PERPLEXITY, (len(rows) - 1) / 3), init=small, random_state=seed).fit_transform(rows)


def _umap(start: Array, rows: Array, near: NeighborList, seed: int) -> Array:
    import numpy as np

    # The nearest of a node is itself; distances are those of unit rows.
    nodes = np.column_stack([np.arange(len(rows)), near.nodes]).astype(np.int32)
    distance = np.sqrt(2 * np.maximum(0, 1 - near.cosine))
    known = nodes, np.column_stack([np.zeros(len(rows)), distance]).astype(np.float32)
    with warnings.catch_warnings():
        # That neighbours are given, so that it could not place new nodes.
        warnings.simplefilter("ignore")
        library = import_optional("umap", "the layout umap", "maps")
        umap = library.UMAP(n_neighbors=nodes.shape[1], precomputed_knn=known, init=start, random_state=seed, n_jobs=1)
        return umap.fit_transform(rows)


MAP_LAYOUTS = {
    "fast": MapLayout("UMAP, with all nodes moved at every step", _fast),
    "tsne": MapLayout("t-SNE, of scikit-learn", _tsne),
    "umap": MapLayout("UMAP, of umap-learn", _umap, "umap", "maps"),
}
DEFAULT_LAYOUT = "fast"
