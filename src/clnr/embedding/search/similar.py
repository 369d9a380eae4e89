"""Similar nodes from a model folder, reading no more of it than the answer needs and without importing torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clnr.embedding.search.neighbors import NeighborSearch, check_kind, most_similar
from clnr.embedding.search.node_ids import arrow_texts
from clnr.embedding.search.node_search import NodeTexts
from clnr.embedding.search.stored_index import StoredIndex
from clnr.embedding.store.artifact_files import DIGESTS, GRAPH, SOURCE, VECTORS, ArtifactFiles
from clnr.embedding.store.artifact_graph import (
    check_name_column,
    check_node_table,
    check_size,
    load_arrays,
    load_table_info,
)
from clnr.embedding.store.export import read_vectors
from clnr.embedding.store.shards import Shards
from clnr.embedding.store.stored_columns import stored_name_texts, stored_names
from clnr.errors import ClnrError
from clnr.graph.csr import Array
from clnr.graph.sparse_formats import check_csr
from clnr.graph.validation import as_labels
from clnr.support.storage.checked_files import errors_name, read_stable, sha256
from clnr.tables.roles.node_names import name_texts, names_at
from clnr.tables.table_info import NODES, TableInfo


class SimilarNode(NamedTuple):
    """A node that is similar to another.

    Attributes:
        id: Its id, as text.
        cosine: The cosine similarity.
        linked: Whether an edge joins the two, in either direction.
        name: Its name; None if it has none.
        label: The name of its class; None if it is not known.
    """

    id: str
    cosine: float
    linked: bool
    name: str | None = None
    label: str | None = None


class SimilarNodes(NamedTuple):
    """The nodes most similar to one, most similar first, the id of that one, and what is known about nodes of this folder."""

    nodes: list[SimilarNode]
    id: str
    has_names: bool
    has_labels: bool


def similar_nodes(
    folder: Path, node: str, k: int = 10, *, approximate: bool = False, kind: str | None = None, unlinked: bool = False
) -> SimilarNodes:
    """The nodes of a model folder that are most similar to one of them, by cosine similarity.

    The files that are read are checked as ``load_folder`` checks them.

    Args:
        folder: Written by ``clnr embed`` or ``NodeEmbedder.save``.
        node: The id of a node, as text; or its name.
        k: How many.
        approximate: Search an index (usearch): faster for millions of nodes, but it may miss one. The first search builds it,
            and it is kept in the user's cache for the next.
        kind: The kind of the nodes that are wanted; None for all.
        unlinked: Whether to leave out nodes that an edge joins with it.
    """
    if k < 1:
        raise ClnrError(f"k (-k) must be at least 1, not {k}")
    return read_stable(folder, DIGESTS, lambda: _similar(ArtifactFiles.open(folder), node, k, approximate, kind, unlinked))


def _similar(files: ArtifactFiles, node: str, k: int, approximate: bool, kind: str | None, unlinked: bool) -> SimilarNodes:
    if files.has(SOURCE):
        return _similar_in_shards(files, node, k, approximate, kind, unlinked)
    with files.reading(VECTORS) as path:
        ids, z = read_vectors(path)
    texts = [str(each) for each in ids.tolist()]
    info = load_table_info(files)
    column = info.ingest_report.names
    if kind is not None:
        check_kind(kind, info.ingest_report.node_kinds, approximate)
    if node in texts:
        row = texts.index(node)
    else:
        names_too = None if column is None else lambda: [name_texts(_name_column(files, column, len(ids))[column])]
        with errors_name(files.folder):
            row = NodeTexts(lambda: [arrow_texts(texts)], names_too).find_named(node)
    linked, labels = _links_and_labels(files, info, ids, row)
    near = most_similar(
        *(NeighborSearch(z, lambda: _index(files, z)), lambda: [arrow_texts(texts)], (row, texts[row]), k, lambda: linked),
        kind=kind,
        unlinked=unlinked,
        approximate=approximate,
    )
    found, cosines = near.nodes[0], near.cosine[0]
    named = [] if column is None else _name_column(files, column, len(ids))
    names = [] if column is None else names_at(named, column, found, [texts[j] for j in found])
    nodes = [
        SimilarNode(
            id=texts[j],
            cosine=float(cosines[place]),
            linked=int(j) in linked,
            name=(names[place] or None) if names else None,
            label=None if labels is None or labels[j] < 0 else info.class_name(int(labels[j])),
        )
        for place, j in enumerate(found)
    ]
    return SimilarNodes(nodes, texts[row], bool(names), labels is not None)


def _index(files: ArtifactFiles, z: Array) -> Any:
    """The index of the vectors in a folder, which have been read."""
    digest = sha256(files.folder / VECTORS) if files.digests is None else files.digests[VECTORS]
    return StoredIndex(z.shape, digest).open(lambda: iter([(0, z)]))


def _similar_in_shards(
    files: ArtifactFiles, node: str, k: int, approximate: bool, kind: str | None, unlinked: bool
) -> SimilarNodes:
    """Edges, labels and names are those of the graph folder, if it is still where it was."""
    shards, info = Shards.open(files), load_table_info(files)
    graph, column = shards.graph_folder(), info.ingest_report.names
    if kind is not None:
        check_kind(kind, info.ingest_report.node_kinds, approximate)
    row = int(shards.locate([node])[0])
    if row < 0:
        named = None if graph is None or column is None else lambda: stored_name_texts(graph, column)
        with errors_name(files.folder):
            row = NodeTexts(shards.id_texts, named).find_named(node)
    asked = str(shards.ids(np.array([row]))[0])
    linked = shards.linked(row, needed=unlinked)
    near = most_similar(
        *(shards, shards.id_texts, (row, asked), k, lambda: linked), kind=kind, unlinked=unlinked, approximate=approximate
    )
    found, ids = near.nodes[0], [str(each) for each in shards.ids(near.nodes[0]).tolist()]
    labels = None if graph is None or graph.labels is None else graph.labels[found].tolist()
    names = [] if graph is None else stored_names(graph, column, found, ids)
    nodes = [
        SimilarNode(
            id=ids[place],
            cosine=float(near.cosine[0][place]),
            linked=other in linked,
            name=(names[place] or None) if names else None,
            label=None if labels is None or labels[place] < 0 else info.class_name(labels[place]),
        )
        for place, other in enumerate(found.tolist())
    ]
    return SimilarNodes(nodes, asked, bool(names), labels is not None)


def _links_and_labels(files: ArtifactFiles, info: TableInfo, ids: Array, row: int) -> tuple[set[int], Array | None]:
    """The neighbours of a node in the graph, in either direction, and the labels of all nodes."""
    with files.reading(GRAPH) as path:
        arrays = load_arrays(path, "size", "edges.start", "edges.nodes", "labels")
        count, _ = check_size(arrays["size"], ids)
        incoming = check_csr(arrays["edges.nodes"], arrays["edges.nodes"], arrays["edges.start"], (count, count))
        sources = incoming.indices[incoming.indptr[row] : incoming.indptr[row + 1]]
        targets = np.searchsorted(incoming.indptr, np.flatnonzero(incoming.indices == row), "right") - 1
        labels = arrays.get("labels")
        if labels is not None:
            labels = as_labels(labels, count)
            info.check_labels(int(labels.max(initial=-1)) + 1)
    return {*sources.tolist(), *targets.tolist()}, labels


def _name_column(files: ArtifactFiles, column: str, count: int) -> Any:
    """The column of the names of nodes, as an Arrow table."""
    schema: Any = None
    values: Any = None
    if files.has(NODES):
        with files.reading(NODES) as path:
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as file:
                schema = file.schema_arrow
                check_node_table(schema.empty_table(), file.metadata.num_rows, count)
                if schema.names.count(column) == 1:
                    values = file.read(columns=[column])
                    values.validate(full=True)
    check_name_column(files, column, schema)
    return values
