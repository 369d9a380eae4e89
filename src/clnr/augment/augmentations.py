"""Augmentations: each takes a view and a random key, and returns the view with one more change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.hyper_parameters import HyperParameter, hyper_parameter

if TYPE_CHECKING:
    from clnr.engine import SparseMatrix, View

# What augmentations share.
EDGE_DROP = HyperParameter(0.5, 0.0, 1.0, "chance that a view drops an edge", second_view=True)
FEATURE_MASK = HyperParameter(0.2, 0.0, 1.0, "chance that a view masks a feature", second_view=True)
CENTRALITY = HyperParameter(
    "degree",
    choices=("degree", "pagerank", "eigenvector"),
    meaning="by which views spare what is central",
    source="GCA's authors",
)


class Augmentation(ABC):
    """One change to a view.

    Attributes:
        stream: The name of its random stream. It decides what is drawn, so that it never changes.
        deterministic: Whether nothing about it is random, so that the embedding sees it too.
        whole_graph: Whether it looks at all of the graph, which must be in memory then.
    """

    stream: ClassVar[str]
    deterministic: ClassVar[bool] = False
    whole_graph: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, view: View, key: rng.Key) -> View: ...


@dataclass(frozen=True)
class DropEdges(Augmentation):
    """Drop each edge with probability ``edge_drop``; self-loops of the encoder stay (paper, section 2.1)."""

    edge_drop: float = EDGE_DROP.field()
    edge_drop_mode: str = hyper_parameter(
        "directions",
        choices=("directions", "pairs"),
        meaning="drop each direction by itself, or both together",
        source="authors' runs",
    )

    stream: ClassVar[str] = "DropEdges"

    def __call__(self, view: View, key: rng.Key) -> View:
        return view if self.edge_drop == 0 else view.drop_edges(key, self.edge_drop, self.edge_drop_mode == "pairs")


@dataclass(frozen=True)
class MaskFeatures(Augmentation):
    """Set features to zero with probability ``feature_mask``, by columns or by single elements (paper, section 2.1)."""

    feature_mask: float = FEATURE_MASK.field()
    feature_mask_mode: str = hyper_parameter(
        "columns",
        choices=("columns", "elements"),
        meaning="mask a feature for all nodes, or for each by itself",
        source="authors' runs",
    )

    stream: ClassVar[str] = "MaskFeatures"

    def __call__(self, view: View, key: rng.Key) -> View:
        if self.feature_mask == 0:
            return view
        return view.mask_features(key, self.feature_mask, self.feature_mask_mode == "elements")


@dataclass(frozen=True)
class AdaptiveDropEdges(Augmentation):
    """Drop edges to nodes of low centrality more often, at a mean rate of ``edge_drop`` (``centrality.rates``)."""

    edge_drop: float = EDGE_DROP.field()
    centrality: str = CENTRALITY.field()

    stream: ClassVar[str] = "DropUnimportantEdges"
    whole_graph: ClassVar[bool] = True

    def __call__(self, view: View, key: rng.Key) -> View:
        from clnr.augment.centrality import edge_rates

        graph = view.device_graph
        return view.drop_edges(key, graph.once(self, lambda: edge_rates(graph, self.centrality, self.edge_drop)))


@dataclass(frozen=True)
class AdaptiveMaskFeatures(Augmentation):
    """Mask features of nodes of low centrality more often, at a mean rate of ``feature_mask`` (``centrality.rates``)."""

    feature_mask: float = FEATURE_MASK.field()
    centrality: str = CENTRALITY.field()

    stream: ClassVar[str] = "MaskUnimportantFeatures"
    whole_graph: ClassVar[bool] = True

    def __call__(self, view: View, key: rng.Key) -> View:
        from clnr.augment.centrality import feature_rates

        graph = view.device_graph
        return view.mask_features(key, graph.once(self, lambda: feature_rates(graph, self.centrality, self.feature_mask)))


@dataclass(frozen=True)
class ShuffleNodes(Augmentation):
    """Permute the nodes' features: a corruption that keeps the edges."""

    stream: ClassVar[str] = "ShuffleNodes"
    whole_graph: ClassVar[bool] = True

    def __call__(self, view: View, key: rng.Key) -> View:
        return view.but(node_permutation=rng.shuffle(key, view.device_graph.graph.num_nodes, view.device_graph.device))


@dataclass(frozen=True)
class Diffuse(Augmentation):
    """Propagate by ``personalised_pagerank`` in place of the edges; it is computed once per graph."""

    ppr_alpha: float = hyper_parameter(
        0.2, 1e-6, 1.0, "chance that a diffusing walk stops at each step", source="MVGRL's authors"
    )
    diffusion_error: float = hyper_parameter(1e-4, 1e-9, 1.0, "bound on the diffusion's error, relative to degrees")
    diffusion_scale: str = hyper_parameter(
        "none", choices=("none", "columns"), meaning="as the diffusion is, or columns to maximum 1"
    )

    stream: ClassVar[str] = "Diffuse"
    deterministic: ClassVar[bool] = True
    whole_graph: ClassVar[bool] = True

    def __call__(self, view: View, key: rng.Key) -> View:
        from clnr.augment.diffusion import columns_to_one, personalised_pagerank
        from clnr.engine import to_sparse_matrix

        device_graph = view.device_graph

        def diffusion() -> SparseMatrix:
            matrix = personalised_pagerank(device_graph.graph, self.ppr_alpha, self.diffusion_error)
            matrix = columns_to_one(matrix) if self.diffusion_scale == "columns" else matrix
            return to_sparse_matrix(matrix, device_graph.device)

        return view.but(propagation_matrix=device_graph.once(self, diffusion))


@dataclass(frozen=True)
class EncoderDropout(Augmentation):
    """Dropout of the features and inside the encoder (Srivastava et al., 2014)."""

    dropout: float = hyper_parameter(0.0, 0.0, 0.99, "of features and inside the encoder")

    stream: ClassVar[str] = "DropOut"

    def __call__(self, view: View, key: rng.Key) -> View:
        if self.dropout == 0:
            return view
        masked = view.mask_features(key, self.dropout, elements=True, scale=1 / (1 - self.dropout))
        return masked.drop_activations(key, self.dropout)
