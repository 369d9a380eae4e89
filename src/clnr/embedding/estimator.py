"""NodeEmbedder: a method as scikit-learn has its transformers."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from clnr.embedding.artifact import OWNED_FILES, load_folder, save_folder
from clnr.embedding.convert import as_read
from clnr.embedding.defaults import default_recipe
from clnr.embedding.fitting import SHARE, EmbeddingResult, grown, learn_graph
from clnr.embedding.neighbors import Neighbours
from clnr.embedding.node_ids import Lookup
from clnr.embedding.preflight import left_out
from clnr.engine import choose
from clnr.errors import RecipeError
from clnr.experiments.run import check_seed, method_of
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.arguments import check_int, check_path, check_type
from clnr.support.atomic_io import atomic_folder, check_folder, reserve_folder
from clnr.tables import TableGraph, read_tables


class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns embeddings of the nodes of a graph without labels, and embeds graphs with what it learned.

    A graph is a ``clnr.Graph``, what ``read_tables`` returns, PyG's ``Data``, a networkx graph (its nodes' ``x`` are features),
    a SciPy adjacency matrix or a pair of one and features, a data frame of edges, or a pair of one of edges and one of nodes.
    Where there are no features, they come from structure.

    >>> from clnr import NodeEmbedder, load
    >>> graph = load("toy")
    >>> z = NodeEmbedder(epochs=5).fit_transform(graph)
    >>> z.shape
    (2400, 256)

    Args:
        method: A method, or its name; see ``clnr ls methods``.
        dimension: Of the embedding; None for what the recipe has.
        epochs: To train; likewise.
        seed: Decides everything random.
        recipe: All numbers, or some by name; the others are those shipped for a data set that ``load`` returned, else such as
            follow the graph's size, density and features.
        hold_out: The share of edges that training does not see, to score by; 0 for none.
        device: ``auto``, ``cpu`` or ``cuda``.
        precision: Of training: ``auto`` (bfloat16 on a GPU, else float32), ``float32`` or ``bfloat16``.
        graph: Where given, this is the graph, and what ``fit`` and ``transform`` are handed are ids of its nodes: so that a
            pipeline can be cross-validated over nodes.

    Attributes:
        embedding_: One row for each node of the graph that it was fitted on.
        ids_: Their ids, in the same order.
        recipe_: All numbers that were used.
        losses_: One an epoch.
        scores_: What was measured: ``link_auc`` and ``link_average_precision`` of edges that training did not see,
            ``effective_rank``, ``alignment`` and ``uniformity``; none of them looks at labels.
        findings_: What was found in tables, where the graph was read from some.
        n_features_in_: Features of a node.
    """

    def __init__(
        self,
        method: Method | str = "CLNR",
        *,
        dimension: int | None = None,
        epochs: int | None = None,
        seed: int = 0,
        recipe: Recipe | Mapping[str, Any] | None = None,
        hold_out: float = SHARE,
        device: str = "auto",
        precision: str = "auto",
        graph: Any = None,
    ):
        self.method = method
        self.dimension = dimension
        self.epochs = epochs
        self.seed = seed
        self.recipe = recipe
        self.hold_out = hold_out
        self.device = device
        self.precision = precision
        self.graph = graph

    def fit(self, X: Any, y: Any = None) -> NodeEmbedder:  # noqa: N803
        """Learn from a graph.

        Args:
            X: The graph; or, where the embedder was given one, ids of its nodes, which do not matter here.
            y: Not used.
        """
        read = as_read(X if self.graph is None else self.graph)
        method = method_of(self.method)
        given = {"dimension": self.dimension, "epochs": self.epochs}
        recipe = self._recipe(method, read.graph).but(**{name: value for name, value in given.items() if value is not None})
        check_seed(self.seed)
        if not (isinstance(self.hold_out, numbers.Real) and 0 <= self.hold_out < 1):
            raise RecipeError(f"hold_out must be from 0 to less than 1, not {self.hold_out!r}")
        engine = choose(self.device, self.precision)
        outcome = learn_graph(read, method, recipe, self.seed, engine, share=self.hold_out, evaluate=False)
        self._keep(outcome)
        _warn_of(read)
        return self

    def _recipe(self, method: Method, graph: Graph) -> Recipe:
        if isinstance(self.recipe, Recipe):
            return self.recipe
        if not (self.recipe is None or isinstance(self.recipe, Mapping)):
            raise RecipeError(f"a recipe is a Recipe or numbers by name, not a {type(self.recipe).__name__}")
        return default_recipe(method, graph)[0].but(**(self.recipe or {}))

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Embeddings of the nodes of a graph: the one it was fitted on, or another with the same features.

        Args:
            X: The graph; or, where the embedder was given one, ids of its nodes.
        """
        check_is_fitted(self)
        if self.graph is not None:
            return self.embedding_[self._lookup.places(X)]
        graph = as_read(X, self._outcome.read.feature_encoder).graph
        if graph is self._outcome.read.graph:
            return self.embedding_.copy()
        return self._outcome.trained.embed(graph, choose(self.device, self.precision))

    def fit_transform(self, X: Any, y: Any = None) -> Array:  # noqa: N803
        """``fit``, and the embeddings of what it was fitted on."""
        self.fit(X, y)
        return self.embedding_.copy() if self.graph is None else self.transform(X)

    def extend(self, edges: Any = None, nodes: Any = None, **columns: Any) -> NodeEmbedder:
        """An embedder with tables added to the graph that this one was fitted on, as by ``clnr embed --model``.

        Nothing is trained: new nodes are encoded as those of before, and all are embedded with what was learned.

        Args:
            edges: A table of edges, as ``read_tables`` takes it, which may join new nodes to those of before; or None.
            nodes: One of nodes, or None.
            columns: Names of columns, and what else ``read_tables`` takes.
        """
        check_is_fitted(self)
        read = read_tables(edges, nodes, base=self._outcome.read, **columns)
        larger = clone(self)
        larger._keep(grown(self._outcome, read, choose(self.device, self.precision)))
        _warn_of(read)
        return larger

    def similar(self, node: Any, k: int = 10, *, approximate: bool = False) -> list[tuple[Any, float]]:
        """The nodes most similar to one of the graph that it was fitted on: ids, and the cosine of each.

        Args:
            node: Its id.
            k: How many.
            approximate: By an index (usearch): faster where there are millions of nodes, and now and then it misses one.
        """
        check_is_fitted(self)
        k, approximate = check_int("k", k), check_type("approximate", approximate, bool | np.bool_, "True or False")
        near = self._neighbours.nearest([self._lookup.place(node)], k, approximate)
        return list(zip(self.ids_[near.nodes[0]].tolist(), near.cosine[0].tolist(), strict=True))

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Write a folder that ``load`` and ``clnr embed --model`` read: the model, its recipe, the graph and its embedding.

        Ids that are neither numbers, text nor times, such as tuples, are written as text; nodes are found by either.
        """
        check_is_fitted(self)
        path, force = check_path("folder", folder), check_type("force", force, bool | np.bool_, "True or False")
        with reserve_folder(path, OWNED_FILES):
            check_folder(path, force, OWNED_FILES)
            with atomic_folder(path, force, OWNED_FILES) as part:
                save_folder(self._outcome, part)

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto", precision: str = "auto") -> NodeEmbedder:
        """Read what ``save`` or ``clnr embed`` wrote; nothing in it is ever run."""
        outcome = load_folder(check_path("folder", folder))
        trained = outcome.trained
        made = cls(trained.method.name, seed=trained.seed, recipe=trained.recipe, device=device, precision=precision)
        made._keep(outcome)
        return made

    def _keep(self, outcome: EmbeddingResult) -> None:
        self._outcome = outcome
        self.embedding_ = outcome.z
        self.ids_ = outcome.read.graph.node_ids
        self._lookup, self._neighbours = Lookup(self.ids_), Neighbours(outcome.z)
        self.recipe_ = outcome.trained.recipe
        self.losses_ = outcome.losses
        self.scores_ = outcome.scores
        self.ingest_report_ = outcome.read.ingest_report
        self.n_features_in_ = outcome.trained.features

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_outcome")


def _warn_of(read: TableGraph) -> None:
    """Edges that lead nowhere are mostly a mistake, and nobody would see it."""
    if said := left_out(read.ingest_report):
        warnings.warn(said, UserWarning, stacklevel=3)
