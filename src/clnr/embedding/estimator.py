"""NodeEmbedder: node embeddings as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from clnr.embedding import job
from clnr.embedding.defaults import choose_method
from clnr.embedding.extend import embed_nodes, extend
from clnr.embedding.fit_settings import HOLD_OUT, Settings
from clnr.embedding.graph_sources import as_graph
from clnr.embedding.planning.plan import Plan, make_plan
from clnr.embedding.result.artifact import Output, load_result, name_nodes, write_result
from clnr.embedding.result.clusters import Clusters, find_clusters
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.result.neighbors import describe_similar
from clnr.embedding.result.report_data import report_html
from clnr.embedding.result.shards import Shards
from clnr.engine import choose
from clnr.engine.distributed.worker_session import joined
from clnr.errors import ClnrError, RecipeError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.arguments import caller_level, check_int, check_path, check_type
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.progress import log_progress
from clnr.support.storage import resolve_path, write_bytes
from clnr.training.checkpoint import remove_checkpoint


@dataclass(eq=False, repr=False)
class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns node embeddings without labels, as a scikit-learn transformer.

    >>> from clnr import NodeEmbedder, load
    >>> graph = load("toy")
    >>> embedder = NodeEmbedder(dimension=64, epochs=5).fit(graph)
    >>> embedder.embedding_.shape
    (2400, 64)
    >>> len(embedder.similar(0, k=3))
    3

    ``fit`` accepts edges alone, or a pair of edges and nodes:

    - tables: files or data frames; for several kinds, dictionaries of tables by name (see ``read_tables``);
    - a list or array of pairs or weighted triples, or PyG's ``edge_index``, with an optional array of features;
    - an adjacency matrix, with optional features;
    - PyG's ``Data``, a networkx graph (node attribute ``x``), a ``clnr.Graph``, or the result of ``read_tables``;
    - the path of a graph folder. If it does not fit in memory, ``fit`` trains from its files.

    A graph without features gets structural ones.

    Args:
        method: A method, or its name (see ``clnr ls methods``). None: the effort's method.
        encoder: A ``torch.nn.Module`` with ``forward(x, edge_index)``, such as PyG's GraphSAGE, in place of
            the method's encoder. A copy is trained, in full steps, from the module's own parameters.
        effort: ``quick`` (no training), ``standard`` or ``best``; None: ``standard``.
        purpose: What the vectors are for. ``labels``: labels of some nodes choose the columns of the
            read-out, or a baseline; ``links``: to predict edges. None: for everything.
        dimension: Width of the embedding; None: the recipe's.
        epochs: Number of training epochs; None: the recipe's.
        seed: Seed of held-out edges, initial weights, augmentations and samples.
        recipe: All hyper-parameters, or some by name. The others come from the recipe of a data set that
            ``load`` returned, or depend on the graph's size, density and features.
        hold_out: Share of edges held out of training to score the embedding; 0: none.
        device: ``auto``, ``cpu`` or ``cuda``.
        precision: Of training: ``float32``, ``bfloat16``, or ``auto``: bfloat16 on a GPU or a CPU with AMX.
        graph: If given, ``fit`` and ``transform`` take ids of this graph's nodes, to cross-validate a
            pipeline over nodes; every fold sees all nodes and edges.
        checkpoint: File to which the training state is saved once a minute; ``save`` removes it.
        resume: Whether ``fit`` continues from an existing checkpoint.
        evaluate: Whether ``fit`` scores training-free baselines and, with labels, a linear probe.
        threads: Number of CPU threads; None: as many as a step can use. Last bits of a result depend on it.
        verbose: Whether to show the plan and the progress of ``fit``, from the logger ``clnr`` at level INFO.

    Attributes:
        embedding_: One row per node. For a graph in files, rows are read on access: ``embedding_[rows]``,
            ``embedding_.blocks()``; ``numpy.asarray`` reads all of them.
        ids_: Ids of the nodes, in the same order.
        recipe_: All hyper-parameters that were used.
        losses_: One per epoch.
        scores_: ``link_auc`` and ``link_average_precision`` of the held-out edges, ``effective_rank``,
            ``alignment`` and ``uniformity``; with ``evaluate`` and labels, ``strict_accuracy``,
            ``validation_accuracy`` and ``majority_accuracy`` of a linear probe.
        baselines_: With ``evaluate``, the scores of raw features and of training-free methods, by name.
        warnings_: Warnings from reading the tables and from training, one string each.
        table_info_: What was found in the tables, if the graph was read from tables.
        n_features_in_: Number of features per node.
    """

    method: Method | str | None = None
    _: KW_ONLY
    encoder: Any = None
    effort: str | None = None
    purpose: str | None = None
    dimension: int | None = None
    epochs: int | None = None
    seed: int = 0
    recipe: Recipe | Mapping[str, Any] | None = None
    hold_out: float = HOLD_OUT
    device: str = "auto"
    precision: str = "auto"
    graph: Any = None
    checkpoint: str | Path | None = None
    resume: bool = False
    evaluate: bool = False
    threads: int | None = None
    verbose: bool = False

    def plan(self, X: Any = None) -> Plan:  # noqa: N803
        """What ``fit`` would do with a graph: warnings, chosen hyper-parameters, a bound of memory.

        ``print`` shows it in lines, and ``to_dict`` has it as plain values.
        """
        return make_plan(as_graph(X if self.graph is None else self.graph), self._settings())

    def fit(self, X: Any, y: Any = None) -> NodeEmbedder:  # noqa: N803
        """Learn from a graph.

        In a process that ``torchrun`` or Ray Train started, all processes of the group call ``fit`` with the
        same arguments and share the training; afterwards only the embedder of rank 0 is fitted.

        Args:
            X: The graph; or, if the embedder was given one, ids of its nodes, which have no effect here.
            y: Not used.
        """
        source = X if self.graph is None else self.graph
        with joined(self.device) as workers, log_progress(_truth("verbose", self.verbose) and workers.first) as bar:
            result = job.embed(lambda: as_graph(source), self._settings(workers), bar=bar)
        if result is not None:
            self._set_result(result)
            _warn_of(result.graph)
        return self

    def _settings(self, workers: Workers = ALONE) -> Settings:
        file, changes = self.checkpoint, {"dimension": self.dimension, "epochs": self.epochs}
        settings = Settings(
            **choose_method(self.method, self.effort, self.purpose, self.encoder),
            engine=choose(self.device, self.precision, self.threads),
            changes={name: value for name, value in changes.items() if value is not None},
            checkpoint=None if file is None else resolve_path(check_path("checkpoint", file)),
            baselines=self.evaluate,
            workers=workers,
            recipe=self.recipe,
            seed=self.seed,
            hold_out=self.hold_out,
            resume=self.resume,
            evaluate=self.evaluate,
        )
        if settings.resume and file is None:
            raise RecipeError("resume=True needs checkpoint=FILE, where the state of training is saved")
        return job.as_begun(settings)

    def transform(self, X: Any) -> Array | Shards:  # noqa: N803
        """Embeddings of the nodes of a graph: the one it was fitted on, or another with the same features.

        Args:
            X: The graph; or, if the embedder was given one, ids of its nodes.
        """
        check_is_fitted(self)
        result = self._result
        if self.graph is not None:
            return result.z[result.nodes.rows(X)]
        graph = as_graph(X, result.graph.info.encoder)
        if graph.digest == result.graph.digest:
            return result.z.copy()
        _warn_of(graph)
        return embed_nodes(result.model, graph, choose(self.device, self.precision, self.threads))

    def fit_transform(self, X: Any, y: Any = None) -> Array | Shards:  # noqa: N803
        """``fit``, and the embeddings of its graph."""
        self.fit(X, y)
        check_is_fitted(self)
        return self.embedding_.copy() if self.graph is None else self.transform(X)

    def extend(self, edges: Any = None, nodes: Any = None, **columns: Any) -> NodeEmbedder:
        """A new embedder whose graph also has the nodes and edges of these tables, as ``clnr transform``.

        Nothing is trained: the same model embeds the whole graph.

        Args:
            edges: A table of edges, as for ``read_tables``; or None.
            nodes: A table of nodes, or None.
            columns: Names of columns, and other arguments of ``read_tables``.
        """
        check_is_fitted(self)
        tables = {"edges": edges, "nodes": nodes, **columns}
        with log_progress(_truth("verbose", self.verbose)) as bar:
            result = extend(self._result, tables, choose(self.device, self.precision, self.threads), bar=bar)
        larger = clone(self)
        larger._set_result(result)
        _warn_of(result.graph)
        return larger

    def similar(
        self, node: Any, k: int = 10, *, kind: str | None = None, unlinked: bool = False, names: bool = False
    ) -> list[tuple[Any, ...]]:
        """The nodes most similar to one of the fitted graph: the id and the cosine similarity of each.

        Args:
            node: Its id; or its name, if the tables have a column of names.
            k: How many.
            kind: The kind of the nodes that are wanted, such as ``item``; None for all.
            unlinked: Whether to leave out nodes that an edge joins with it.
            names: Whether to add the name of each; None for one without.
        """
        check_is_fitted(self)
        k, unlinked, names = check_int("k", k), _truth("unlinked", unlinked), _truth("names", names)
        z, nodes = self._result.z, self._result.nodes
        near = describe_similar(z, nodes, nodes.find(node), k, kind=kind, unlinked=unlinked).nodes
        return [(each.id, each.cosine, each.name) if names else (each.id, each.cosine) for each in near]

    def clusters(self, k: int | None = None, *, kind: str | None = None) -> Clusters:
        """Clusters of the nodes, by k-means of their vectors scaled to length 1, the largest first.

        Args:
            k: How many; None for the number, up to 12, with the highest silhouette, or 8 if none is clear.
            kind: The kind of the nodes, such as ``item``; others have the cluster -1. None for all.
        """
        check_is_fitted(self)
        result = self._result
        if k is None and kind is None:
            return result.clusters
        return find_clusters(result.z, result.nodes, None if k is None else check_int("k", k), kind)

    def report(self, path: str | Path, *, title: str | None = None, name: str | None = None, colour: str | None = None) -> Path:
        """Write the report, one HTML file with facts, scores and a map to explore, and return its path.

        Args:
            path: The file, which is overwritten.
            title: The heading; None for the graph's name.
            name: The column with the nodes' names; None for the one found by ``read_tables``.
            colour: The column that the map opens with, or ``cluster``; None for labels, else a column of few
                values, else clusters.
        """
        check_is_fitted(self)
        if resolve_path(file := check_path("path", path)).is_dir():
            raise ClnrError(f"{file} is a folder, not a file to write to")
        for argument, text in (("title", title), ("name", name), ("colour", colour)):
            check_type(argument, text, str | None, "text")
        result = name_nodes(self._result, name)
        return write_bytes(file, report_html(result, result.graph.name if title is None else title, colour))

    def save(self, folder: str | Path, *, force: bool = False, report: bool = False) -> None:
        """Write a folder that ``load`` and ``clnr transform`` read: model, recipe, graph and embedding.

        Ids that are not whole numbers are written as text; nodes are found by either. A checkpoint of the
        training is removed.

        Args:
            folder: Where to write.
            force: Whether a folder that clnr wrote may be overwritten.
            report: Whether to write report.html, too.
        """
        check_is_fitted(self)
        output = Output(check_path("folder", folder), _truth("force", force), _truth("report", report))
        write_result(self._result, output)
        if self.checkpoint is not None:
            remove_checkpoint(check_path("checkpoint", self.checkpoint))

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto", precision: str = "auto", encoder: Any = None) -> NodeEmbedder:
        """Load what ``save`` or ``clnr embed`` wrote; nothing in it is ever executed.

        Args:
            folder: Where it is.
            device: As for the embedder.
            precision: As for the embedder.
            encoder: If the model has an encoder of your own, a module of the same class and sizes.
        """
        result = load_result(check_path("folder", folder), encoder=encoder)
        model = result.model
        model.method.check_encoder()
        embedder = cls(
            model.method.registered.name,
            encoder=encoder,
            seed=model.seed,
            recipe=model.recipe,
            hold_out=model.provenance.hold_out,
            device=device,
            precision=precision,
        )
        embedder._set_result(result)
        return embedder

    def _set_result(self, result: EmbeddingResult) -> None:
        self._result = result
        self.embedding_, self.ids_ = result.z, result.nodes.ids
        self.recipe_, self.n_features_in_ = result.model.recipe, result.model.features
        self.losses_, self.scores_, self.baselines_ = result.losses, result.scores, result.baselines
        self.warnings_ = (*result.graph.info.notes, *result.warnings)
        self.table_info_ = result.graph.info

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])


def _truth(name: str, value: Any) -> bool:
    return bool(check_type(name, value, int | np.bool_, "True or False"))


def _warn_of(graph: Graph) -> None:
    """Warn of likely mistakes in tables, and of edges that were left out."""
    for note in graph.info.notes:
        if note.startswith(("warning: ", "left out: ")):
            warnings.warn(note.removeprefix("warning: "), UserWarning, stacklevel=caller_level())
