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

_PERPLEXITY = 30


@dataclass(frozen=True)
class MapLayout:
    """How nodes are placed on a map.

    Attributes:
        summary: What it is, in a few words.
        draw: Points in the plane, [n, 2], from the embedding, the nearest neighbours of every node, and a seed.
        seconds: Roughly how long it takes for so many nodes.
        needs: The module of an optional package; None for none.
        extra: The extra of clnr that installs it.
    """

    summary: str
    draw: Callable[[Array, NeighborList, int], Array]
    seconds: Callable[[int], float]
    needs: str | None = None
    extra: str | None = None


def check_layout(name: str) -> str:
    """The name of a layout; an error if there is none of this name, or its package is not installed."""
    layout = MAP_LAYOUTS[check_choice("layout", name, MAP_LAYOUTS)]
    if layout.needs is not None:
        check_installed(layout.needs, f"the layout {name}", layout.extra)
    return name


def _fast(z: Array, near: NeighborList, seed: int) -> Array:
    from clnr.embedding.reporting.projection import layout

    return layout(z, near, seed)


def _fast_seconds(nodes: int) -> float:
    from clnr.embedding.reporting.projection import steps_of

    return 2e-6 * nodes * steps_of(nodes)


def _tsne(z: Array, near: NeighborList, seed: int) -> Array:
    from sklearn.manifold import TSNE

    from clnr.embedding.reporting.projection import can_move, principal, unit

    start = principal(z)
    if not can_move(z, near):
        return start
    # Its forces need a start near the origin (Kobak and Berens, 2019).
    tsne = TSNE(perplexity=min(_PERPLEXITY, (len(z) - 1) / 3), init=start * (1e-4 / start[:, 0].std()), random_state=seed)
    return tsne.fit_transform(unit(z))


def _umap(z: Array, near: NeighborList, seed: int) -> Array:
    import numpy as np

    from clnr.embedding.reporting.projection import can_move, principal, unit

    start = principal(z)
    if not can_move(z, near):
        return start
    # The nearest of a node is itself; distances are those of unit rows.
    nodes = np.column_stack([np.arange(len(z)), near.nodes]).astype(np.int32)
    distance = np.sqrt(2 * np.maximum(0, 1 - near.cosine))
    known = nodes, np.column_stack([np.zeros(len(z)), distance]).astype(np.float32)
    with warnings.catch_warnings():
        # That neighbours are given, so that it could not place new nodes.
        warnings.simplefilter("ignore")
        library = import_optional("umap", "the layout umap", "maps")
        umap = library.UMAP(n_neighbors=nodes.shape[1], precomputed_knn=known, init=start, random_state=seed, n_jobs=1)
        return umap.fit_transform(unit(z))


MAP_LAYOUTS = {
    "fast": MapLayout("UMAP, with all nodes moved at every step", _fast, _fast_seconds),
    "tsne": MapLayout("t-SNE, of scikit-learn", _tsne, lambda nodes: 7e-3 * nodes),
    "umap": MapLayout("UMAP, of umap-learn", _umap, lambda nodes: 10 + 5e-4 * nodes, "umap", "maps"),
}
DEFAULT_LAYOUT = "fast"
