"""Similar nodes from a model folder, reading no more of it than the answer needs and without importing torch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from clnr.embedding.search.neighbors import ArrayRows, NeighborList, Rows, nearest, nearest_of_kind
from clnr.embedding.search.node_ids import json_id
from clnr.embedding.search.nodes import Nodes
from clnr.embedding.store.artifact_files import DIGESTS, SOURCE, VECTORS, ArtifactFiles
from clnr.embedding.store.artifact_graph import load_nodes
from clnr.embedding.store.export import read_vectors
from clnr.embedding.store.shards import Shards
from clnr.errors import ClnrError
from clnr.support.storage import errors_name, read_stable


class SimilarNode(NamedTuple):
    """A node that is similar to another; it is linked if an edge joins the two, in either direction."""

    id: int | str
    cosine: float
    linked: bool
    name: str | None = None
    label: str | None = None


class SimilarNodes(NamedTuple):
    """The nodes most similar to one, most similar first, the id of that one, and what is known about nodes of this folder.

    ``label_column`` is what labels are called; None if nodes have none.
    """

    nodes: list[SimilarNode]
    id: str
    has_names: bool
    label_column: str | None


def similar_nodes(folder: Path, node: str, k: int = 10, *, kind: str | None = None, unlinked: bool = False) -> SimilarNodes:
    """The nodes of a model folder that are most similar to one of them, by cosine similarity.

    The files that are read are checked: sizes, digests of all but the arrays of the graph, and what is read of these.

    A node is named by its id, as text, or by its name.
    """
    if k < 1:
        raise ClnrError(f"k (-k) must be at least 1, not {k}")
    return read_stable(folder, DIGESTS, lambda: _similar(ArtifactFiles.open(folder), node, k, kind, unlinked))


def _similar(files: ArtifactFiles, name: str, k: int, kind: str | None, unlinked: bool) -> SimilarNodes:
    rows, nodes = _open(files)
    node = nodes.ids.get(name)
    if node is None:
        with errors_name(files.folder):
            node = nodes.find_named(name)
    linked = nodes.linked(node, needed=unlinked)
    near, cosines = most_similar(rows, nodes, node, k, kind=kind, unlinked=unlinked)
    labels, names = nodes.labels_of(near), nodes.names_of(near)
    similar = [
        SimilarNode(
            id=json_id(near_id),
            cosine=float(cosines[place]),
            linked=int(near[place]) in linked,
            name=(names[place] or None) if names else None,
            label=None if labels is None or labels[place] < 0 else nodes.info.class_name(labels[place]),
        )
        for place, near_id in enumerate(nodes.ids[near].tolist())
    ]
    label_column = None if labels is None else nodes.info.ingest_report.label_column
    return SimilarNodes(similar, str(nodes.ids[node]), bool(names), label_column)


def _open(files: ArtifactFiles) -> tuple[Rows, Nodes]:
    """The vectors of a folder, and who its nodes are; with shards, as its graph folder tells, if that is still where it was."""
    if files.has(SOURCE):
        shards = Shards.open(files)
        return shards, load_nodes(files, shards)
    with files.reading(VECTORS) as path:
        ids, z = read_vectors(path)
    return ArrayRows(z), load_nodes(files, ids)


def most_similar(
    rows: Rows,
    nodes: Nodes,
    node: int,
    k: int,
    *,
    kind: str | None = None,
    unlinked: bool = False,
) -> NeighborList:
    """The ``k`` nodes, of a kind or of all, that are most similar to a node, without it and, if so asked, its neighbours."""
    if kind is not None:
        nodes.check_kind(kind)
    linked = nodes.linked(node, needed=unlinked) if unlinked or kind is not None else set()
    count = k + len(linked) if unlinked else k
    if kind is None:
        near = nearest(rows, node, count)
    else:
        near = nearest_of_kind(rows, nodes.ids, kind, (node, str(nodes.ids[node])), count, linked)
    if not unlinked:
        return near
    kept = np.flatnonzero(~np.isin(near.nodes, list(linked)))[:k]
    return NeighborList(near.nodes[kept], near.cosine[kept])
