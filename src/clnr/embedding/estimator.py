"""NodeEmbedder: node embeddings as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from clnr.embedding import pipeline
from clnr.embedding.artifact import load_folder, name_nodes
from clnr.embedding.convert import as_table_graph
from clnr.embedding.defaults import choose_method
from clnr.embedding.export import parse_formats
from clnr.embedding.fitting import HOLD_OUT, EmbeddingResult
from clnr.embedding.neighbors import NeighborSearch
from clnr.embedding.node_ids import Lookup
from clnr.embedding.preflight import Preflight, dangling_warning, table_warnings
from clnr.embedding.report_data import report_html
from clnr.engine import choose
from clnr.errors import ClnrError
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.arguments import check_int, check_list, check_path, check_type
from clnr.support.atomic_io import resolve_path, write_atomic
from clnr.support.deprecation import renamed
from clnr.tables import IngestReport
from clnr.training.checkpoint import remove_checkpoint


class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns node embeddings of a graph without labels, and embeds other graphs with what it learned.

    A graph is a ``clnr.Graph``, what ``read_tables`` returns, PyG's ``Data``, a networkx graph (its nodes' ``x`` are features),
    a SciPy adjacency matrix or a pair of one and features, a data frame of edges, or a pair of data frames: edges and nodes.
    A graph without features gets structural ones.

    >>> from clnr import NodeEmbedder, load
    >>> graph = load("toy")
    >>> z = NodeEmbedder(epochs=5).fit_transform(graph)
    >>> z.shape
    (2400, 256)

    ``plan`` says what training would do and need, a checkpoint lets an interrupted training resume, and ``report`` writes
    scores and a map of the embedding as one HTML file.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow
    >>> ring = pyarrow.table({"source": list(range(30)), "target": [*range(1, 30), 0]})
    >>> folder = Path(tempfile.mkdtemp())
    >>> embedder = NodeEmbedder(epochs=9, dimension=16, checkpoint=folder / "ring.checkpoint", checkpoint_every=5, resume=True)
    >>> embedder.plan(ring).facts["edges"]
    '30 undirected'
    >>> embedder.fit(ring).report(folder / "ring.html", title="A ring").name
    'ring.html'

    Args:
        method: A method, or its name (see ``clnr ls methods``); ``auto`` for the standard one or a baseline that is better by
            labels of validation nodes or, without labels, by held-out edges. None for that of the effort.
        effort: How much time to spend: ``quick`` (no training), ``standard`` or ``best``; None for ``standard``.
        dimension: Width of the embedding; None for the recipe's.
        epochs: Number of training epochs; None for the recipe's.
        seed: Of all randomness: held-out edges, initial weights, augmentations, samples.
        recipe: All hyper-parameters, or some by name. The others are those shipped for a data set that ``load`` returned, else
            chosen by the graph's size, density and features.
        hold_out: The share of edges that training does not see, to score by; 0 for none.
        device: ``auto``, ``cpu`` or ``cuda``.
        precision: Training precision: ``auto`` (bfloat16 on a GPU, and on a CPU that is faster in it), ``float32`` or
            ``bfloat16``.
        graph: The graph. If given, ``fit`` and ``transform`` take ids of its nodes, so that a pipeline can be cross-validated
            over nodes; every fold then sees all nodes and edges.
        tune: How many recipes to try by validation before training (Optuna); 0 for none. Hyper-parameters set by name, by
            ``dimension`` or by ``epochs`` are left alone.
        checkpoint: A file that ``fit`` saves the state of training to; ``save`` removes it. None: no checkpoint.
        checkpoint_every: Epochs between two saves.
        resume: Whether ``fit`` continues from the checkpoint, if there is one.
        evaluate: Whether ``fit`` evaluates the embedding by labels, if there are any, which adds ``strict_accuracy``,
            ``validation_accuracy`` and ``majority_accuracy`` to the scores; and scores training-free baselines beside it.
        ignore_memory_check: Whether to train even if memory seems too small.
        threads: How many threads of the CPU to take; None for as many as the work of a step is worth. The last bits of a result
            depend on it.

    Attributes:
        embedding_: One row for each node of the graph that it was fitted on.
        ids_: Their ids, in the same order.
        recipe_: All hyper-parameters that were used.
        losses_: One per epoch.
        scores_: ``link_auc`` and ``link_average_precision`` of the held-out edges, ``effective_rank``, ``alignment`` and
            ``uniformity``, none of which needs labels; with ``evaluate``, accuracies of a linear probe.
        baselines_: With ``evaluate``, the scores of raw features and of methods that take no training, by name.
        warnings_: Warnings from reading the tables and from training, one string each.
        ingest_report_: Counts of what was found in the tables, if the graph was read from tables.
        n_features_in_: Features of a node.
    """

    def __init__(
        self,
        method: Method | str | None = None,
        *,
        effort: str | None = None,
        dimension: int | None = None,
        epochs: int | None = None,
        seed: int = 0,
        recipe: Recipe | Mapping[str, Any] | None = None,
        hold_out: float = HOLD_OUT,
        device: str = "auto",
        precision: str = "auto",
        graph: Any = None,
        tune: int = 0,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        resume: bool = False,
        evaluate: bool = False,
        ignore_memory_check: bool = False,
        threads: int | None = None,
    ):
        self.method = method
        self.effort = effort
        self.dimension = dimension
        self.epochs = epochs
        self.seed = seed
        self.recipe = recipe
        self.hold_out = hold_out
        self.device = device
        self.precision = precision
        self.graph = graph
        self.tune = tune
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.evaluate = evaluate
        self.ignore_memory_check = ignore_memory_check
        self.threads = threads

    def plan(self, X: Any = None) -> Preflight:  # noqa: N803
        """What ``fit`` would do: facts of the graph, warnings, chosen hyper-parameters, estimated time and memory.

        ``print`` shows it in lines, and ``to_dict`` has it as plain values.

        Args:
            X: The graph; not needed if the embedder was given one.
        """
        _, preflight = pipeline.plan(as_table_graph(X if self.graph is None else self.graph), self._settings())
        return preflight

    def fit(self, X: Any, y: Any = None) -> NodeEmbedder:  # noqa: N803
        """Learn from a graph.

        Args:
            X: The graph; or, if the embedder was given one, ids of its nodes, which have no effect here.
            y: Not used.
        """
        table_graph = as_table_graph(X if self.graph is None else self.graph)
        self._set_result(pipeline.fit(table_graph, self._settings()))
        _warn_dangling(table_graph.ingest_report)
        return self

    def _settings(self) -> pipeline.Settings:
        shortcuts = {"dimension": self.dimension, "epochs": self.epochs}
        return pipeline.Settings(
            **choose_method(self.method, self.effort),
            engine=choose(self.device, self.precision, self.threads),
            recipe=self.recipe,
            changes={name: value for name, value in shortcuts.items() if value is not None},
            seed=self.seed,
            hold_out=self.hold_out,
            tune=self.tune,
            checkpoint=None if self.checkpoint is None else resolve_path(check_path("checkpoint", self.checkpoint)),
            checkpoint_every=self.checkpoint_every,
            resume=self.resume,
            evaluate=self.evaluate,
            baselines=self.evaluate,
            ignore_memory_check=self.ignore_memory_check,
        )

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Embeddings of the nodes of a graph: the one it was fitted on, or another with the same features.

        Args:
            X: The graph; or, if the embedder was given one, ids of its nodes.
        """
        check_is_fitted(self)
        if self.graph is not None:
            return self.embedding_[self._lookup.rows(X)]
        graph = as_table_graph(X, self._result.table_graph.feature_encoder).graph
        if graph is self._result.table_graph.graph:
            return self.embedding_.copy()
        return self._result.model.embed(graph, choose(self.device, self.precision, self.threads))

    def fit_transform(self, X: Any, y: Any = None) -> Array:  # noqa: N803
        """``fit``, and the embeddings of the graph that it was fitted on."""
        self.fit(X, y)
        return self.embedding_.copy() if self.graph is None else self.transform(X)

    def extend(self, edges: Any = None, nodes: Any = None, **columns: Any) -> NodeEmbedder:
        """A new embedder whose graph also has the nodes and edges of these tables, as ``clnr embed --model``.

        Nothing is trained: new nodes are encoded as the others were, and the whole graph is embedded with the same model.

        Args:
            edges: A table of edges, as for ``read_tables``, which may link new nodes to the present ones; or None.
            nodes: A table of nodes, or None.
            columns: Names of columns, and other arguments of ``read_tables``.
        """
        check_is_fitted(self)
        tables = {"edges": edges, "nodes": nodes, **columns}
        larger = clone(self)
        larger._set_result(pipeline.extend(self._result, tables, choose(self.device, self.precision, self.threads)))
        _warn_dangling(larger.ingest_report_)
        return larger

    def similar(self, node: Any, k: int = 10, *, approximate: bool = False) -> list[tuple[Any, float]]:
        """The nodes most similar to one of the fitted graph: the id and the cosine similarity of each.

        Args:
            node: Its id.
            k: How many.
            approximate: Search an index (usearch): faster for millions of nodes, but it may miss one.
        """
        check_is_fitted(self)
        k, approximate = check_int("k", k), check_type("approximate", approximate, bool | np.bool_, "True or False")
        near = self._neighbors.nearest([self._lookup.row(node)], k, approximate)
        return list(zip(self.ids_[near.nodes[0]].tolist(), near.cosine[0].tolist(), strict=True))

    def report(self, path: str | Path, *, title: str | None = None, name: str | None = None) -> Path:
        """Write the report, one HTML file with facts, scores and a map to explore, and return its path.

        Args:
            path: The file, which is overwritten.
            title: The heading; None for the graph's name.
            name: The column of the node table with the nodes' names; None for the one found by ``read_tables``.
        """
        check_is_fitted(self)
        file, result = check_path("path", path), self._result
        if resolve_path(file).is_dir():
            raise ClnrError(f"{file} is a folder; name a file in it, such as {file / 'report.html'}")
        check_type("title", title, str | None, "text")
        check_type("name", name, str | None, "the name of a column")
        if name is not None:
            result = name_nodes(result, name)
        return write_atomic(file, report_html(result, result.table_graph.graph.name if title is None else title))

    def save(self, folder: str | Path, *, force: bool = False, formats: Collection[str] = (), report: bool = False) -> None:
        """Write a folder that ``load`` and ``clnr embed --model`` read: the model, its recipe, the graph and its embedding.

        Ids that are neither numbers, text nor times, such as tuples, are written as text; nodes are found by either. A
        checkpoint of the training is removed, since the folder has all of it.

        Args:
            folder: Where to write.
            force: Whether a folder that clnr wrote may be overwritten.
            formats: Further formats of the embedding: ``csv``, ``npy``, ``word2vec``, ``pyg``.
            report: Whether to write report.html, too.
        """
        check_is_fitted(self)
        path, force = check_path("folder", folder), check_type("force", force, bool | np.bool_, "True or False")
        check_type("report", report, bool | np.bool_, "True or False")
        names = parse_formats(check_list("formats", formats, str, "names such as csv"))
        pipeline.write_folder(self._result, path, force=force, formats=names, report=report)
        if self.checkpoint is not None:
            remove_checkpoint(check_path("checkpoint", self.checkpoint))

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto", precision: str = "auto") -> NodeEmbedder:
        """Load what ``save`` or ``clnr embed`` wrote; nothing in it is ever executed."""
        result = load_folder(check_path("folder", folder))
        model = result.model
        embedder = cls(model.method.name, seed=model.seed, recipe=model.recipe, device=device, precision=precision)
        embedder._set_result(result)
        return embedder

    def _set_result(self, result: EmbeddingResult) -> None:
        self._result = result
        self.embedding_ = result.z
        self.ids_ = result.table_graph.graph.node_ids
        self._lookup, self._neighbors = Lookup(self.ids_), NeighborSearch(result.z)
        self.recipe_ = result.model.recipe
        self.losses_ = result.losses
        self.scores_ = result.scores
        self.baselines_ = result.baselines
        self.warnings_ = (*table_warnings(result.table_graph), *result.warnings)
        self.ingest_report_ = result.table_graph.ingest_report
        self.n_features_in_ = result.model.features

    @property
    def findings_(self) -> IngestReport:  # The name of earlier versions.
        return getattr(self, renamed("attribute", "findings_", {"findings_": "ingest_report_"}))

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_result")


def _warn_dangling(report: IngestReport) -> None:
    """Edges that lead nowhere are mostly a mistake, and easily overlooked."""
    if message := dangling_warning(report):
        warnings.warn(message, UserWarning, stacklevel=3)
