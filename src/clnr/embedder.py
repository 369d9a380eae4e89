"""NodeEmbedder: a method as scikit-learn has its transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from clnr import methods
from clnr.edges import Array
from clnr.engine import choose
from clnr.errors import DataError, RecipeError
from clnr.methods import Method
from clnr.own.defaults import default_recipe
from clnr.own.folder import load_folder, save_folder
from clnr.own.forms import ids_of
from clnr.own.given import as_read
from clnr.own.learning import SHARE, Outcome, learn_graph
from clnr.own.nearest import nearest
from clnr.recipe import Recipe
from clnr.writing import check_folder, whole_folder


class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns embeddings of the nodes of a graph without labels, and embeds graphs with what it learned.

    A graph is a ``clnr.Graph``, PyG's ``Data``, a networkx graph whose nodes have features ``x``, a pair of a SciPy adjacency
    matrix and features, a data frame of edges, or a pair of data frames of edges and nodes.

    >>> from clnr import NodeEmbedder, load
    >>> graph = load("embedded")
    >>> z = NodeEmbedder(epochs=5).fit_transform(graph)
    >>> z.shape
    (2400, 512)

    Args:
        method: A method, or its name; see ``clnr ls methods``.
        dimension: Of the embedding; None for what the recipe has.
        epochs: To train; likewise.
        seed: Decides everything random.
        recipe: All numbers; None for one that follows the graph's size, density and features.
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
            ``effective_rank``, ``alignment`` and ``uniformity``; with labels in the graph, ``strict_accuracy``, too.
        n_features_in_: Features of a node.
    """

    def __init__(
        self,
        method: Method | str = "CLNR",
        *,
        dimension: int | None = None,
        epochs: int | None = None,
        seed: int = 0,
        recipe: Recipe | None = None,
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
        method = methods.find(self.method) if isinstance(self.method, str) else self.method
        recipe = default_recipe(method, read.graph)[0] if self.recipe is None else self.recipe
        given = {"dimension": self.dimension, "epochs": self.epochs}
        recipe = recipe.but(**{name: value for name, value in given.items() if value is not None})
        if not 0 <= self.hold_out < 1:
            raise RecipeError(f"hold_out must be from 0 to less than 1, not {self.hold_out!r}")
        engine = choose(self.device, self.precision)
        self._keep(learn_graph(read, method, recipe, self.seed, engine, share=self.hold_out))
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Embeddings of the nodes of a graph: the one it was fitted on, or another with the same features.

        Args:
            X: The graph; or, where the embedder was given one, ids of its nodes.
        """
        check_is_fitted(self)
        if self.graph is not None:
            return self.embedding_[self._places(X)]
        graph = as_read(X, self._outcome.read.encoding).graph
        if graph is self._outcome.read.graph:
            return self.embedding_.copy()
        return self._outcome.trained.embed(graph, choose(self.device, self.precision))

    def fit_transform(self, X: Any, y: Any = None) -> Array:  # noqa: N803
        """``fit``, and the embeddings of what it was fitted on."""
        self.fit(X, y)
        return self.embedding_.copy() if self.graph is None else self.transform(X)

    def similar(self, node: Any, k: int = 10, *, approximate: bool = False) -> list[tuple[Any, float]]:
        """The nodes most similar to one of the graph that it was fitted on: ids, and the cosine of each.

        Args:
            node: Its id.
            k: How many.
            approximate: By an index (usearch): faster where there are millions of nodes, and now and then it misses one.
        """
        check_is_fitted(self)
        near = nearest(self.embedding_, self._places([node]), k, approximate)
        return list(zip(self.ids_[near.nodes[0]].tolist(), near.cosine[0].tolist(), strict=True))

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Write a folder that ``load`` and ``clnr embed --model`` read: the model, its recipe, the graph and its embedding."""
        check_is_fitted(self)
        check_folder(Path(folder), force)
        with whole_folder(Path(folder)) as part:
            save_folder(self._outcome, part)

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto", precision: str = "auto") -> NodeEmbedder:
        """Read what ``save`` or ``clnr embed`` wrote; nothing in it is ever run."""
        outcome = load_folder(Path(folder))
        trained = outcome.trained
        made = cls(trained.method.name, seed=trained.seed, recipe=trained.recipe, device=device, precision=precision)
        made._keep(outcome)
        return made

    def _keep(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.embedding_ = outcome.z
        self.ids_ = ids_of(outcome.read.graph)
        self.recipe_ = outcome.trained.recipe
        self.losses_ = outcome.losses
        self.scores_ = outcome.scores
        self.n_features_in_ = outcome.trained.features

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def _places(self, ids: Any) -> Array:
        """Where nodes with these ids are."""
        place = {name: i for i, name in enumerate(self.ids_.tolist())}
        wanted = np.asarray(ids, dtype=None if not isinstance(ids, list) else object).reshape(-1).tolist()
        for name in wanted:
            if name not in place:
                raise DataError(f"there is no node {name!r} in the graph")
        return np.array([place[name] for name in wanted], np.int64)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_outcome")
