"""Nearest neighbours by cosine similarity, in blocks of rows; those of a node of a model folder without importing torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.embedding.result.artifact_files import DIGESTS, ArtifactFiles, load_graph
from clnr.embedding.result.node_ids import id_part
from clnr.embedding.result.nodes import Nodes
from clnr.embedding.result.shards import blocks, load_vectors
from clnr.errors import ClnrError, option
from clnr.graph.kind_rows import KindScale, unit
from clnr.support.arguments import check_choice
from clnr.support.storage import errors_name, read_stable
from clnr.tables.kinds import kind_of, node_id

if TYPE_CHECKING:
    from clnr.graph.csr import Array

# Cosines that are in memory at a time where each node is compared with all.
_BLOCK_COSINES = 1 << 25
# Rows that a processor's cache holds while they are compared and measured; of more, BLAS makes threads wait for each other.
_BLOCK_ROWS = 1 << 10
# The most neighbours of a kind that are averaged.
_MOST_LINKED_NODES = 1000


class NeighborList(NamedTuple):
    """The nearest neighbours of a node, nearest first, and their cosine similarities: both [k]; of n nodes, both [n, k]."""

    nodes: Array
    cosine: Array


def most_similar(z: Any, nodes: Nodes, node: int, k: int, *, kind: str | None = None, unlinked: bool = False) -> NeighborList:
    """The ``k`` nodes, of a kind or of all, that are most similar to a node, without it and, if so asked, its neighbours.

    Nodes of its own kind, or of all kinds: by cosine similarity. Those of another kind: by that of standardised rows to its
    neighbours of the kind that is wanted, as ``kind_cosines``; if it has none, to its own.
    """
    linked = sorted(nodes.graph.neighbours(node)) if unlinked or kind is not None else []
    compare: Callable[[Array, Array], Array] = _cosines
    (query,) = unit(z[[node]])
    if kind is not None and kind_of(str(nodes.ids[node])) != kind:
        query, compare = _query_for_kind(z, nodes, kind, node, np.array(linked, np.int64))
    left_out = np.array([node, *(linked if unlinked else [])])
    return _best(((these, compare(rows, query)) for these, rows in rows_of_kind(z, nodes, kind)), left_out, k)


def _cosines(rows: Array, query: Array) -> Array:
    """How similar rows are to one of length 1; 0 for a row of zeros."""
    norm = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    return np.divide(np.einsum("nd,d->n", rows, query), norm, out=np.zeros_like(norm), where=norm > 0)


def _best(parts: Iterable[tuple[Array, Array]], left_out: Array, k: int) -> NeighborList:
    """The ``k`` nodes of largest cosine, of nodes and cosines in parts; of equally similar nodes the first come first."""
    nodes, cosines = np.empty(0, np.int64), np.empty(0, np.float32)
    for more_nodes, more_cosines in parts:
        kept = np.isin(more_nodes, left_out, invert=True)
        if 0 < k <= len(cosines):
            kept &= more_cosines > cosines[-1]
        nodes, cosines = np.concatenate([nodes, more_nodes[kept]]), np.concatenate([cosines, more_cosines[kept]])
        order = np.argsort(-cosines, kind="stable")[: max(0, k)]
        nodes, cosines = nodes[order], cosines[order]
    return NeighborList(nodes, cosines)


def neighbor_lists(z: Array, k: int) -> NeighborList:
    """The ``k`` rows of largest cosine similarity to each row, without itself; fewer if there are fewer rows."""
    import torch

    rows, k = torch.from_numpy(np.ascontiguousarray(z, dtype=np.float32)), max(0, min(k, len(z) - 1))
    norm = torch.linalg.vector_norm(rows, dim=1)
    scale = torch.where(norm > 0, 1 / norm, 0)
    nodes, cosines = [torch.zeros(0, k, dtype=torch.int64)], [torch.zeros(0, k)]
    for block in torch.arange(len(rows)).split(max(1, _BLOCK_COSINES // max(1, len(rows)))):
        cosine = ((rows[block] * scale[block, None]) @ rows.T).mul_(scale)
        cosine[torch.arange(len(block)), block] = -torch.inf
        best = cosine.topk(k, 1)
        nodes.append(best.indices)
        cosines.append(best.values)
    return NeighborList(torch.cat(nodes).numpy(), torch.cat(cosines).numpy())


# -- nodes of several kinds --


def rows_of_kind(z: Any, nodes: Nodes, kind: str | None) -> Iterator[tuple[Array, Array]]:
    """The nodes of a kind, or all, and their rows, a block at a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = nodes.graph.info.node_kinds
    if kind is not None and not kinds:
        raise ClnrError(f"nodes of this graph have no kinds: leave out {option('kind')}")
    if kind is not None:
        check_choice("kind of nodes", kind, kinds)
    for first, rows in blocks(z, _BLOCK_ROWS):
        of_kind: Any = slice(None)
        if kind is not None:
            ids = id_part(nodes.graph, first, first + len(rows)).cast(pa.string())
            of_kind = np.asarray(pc.starts_with(ids, node_id(kind, "")))
        yield np.arange(first, first + len(rows))[of_kind], rows[of_kind]


def _query_for_kind(z: Any, nodes: Nodes, kind: str, node: int, linked: Array) -> tuple[Array, Callable[[Array, Array], Array]]:
    """What nodes of a kind are compared with, on behalf of a node of another, and how."""
    scale, neighbours = _scale_of(z, nodes, kind, linked)
    if len(neighbours):
        compared = scale.standardise(z[neighbours[:: -(-len(neighbours) // _MOST_LINKED_NODES)]])
    else:
        compared = _scale_of(z, nodes, kind_of(str(nodes.ids[node])), neighbours)[0].standardise(z[[node]])
    return unit(compared.sum(0, keepdims=True))[0], lambda rows, query: scale.standardise(rows) @ query


def _scale_of(z: Any, nodes: Nodes, kind: str, some: Array) -> tuple[KindScale, Array]:
    """What the rows of a kind have in common, and which of some nodes are of this kind."""
    scale, of_this_kind = KindScale(z.shape[1]), [np.empty(0, np.int64)]
    for of_kind, rows in rows_of_kind(z, nodes, kind):
        scale.add(rows)
        of_this_kind.append(np.intersect1d(some, of_kind))
    return scale, np.concatenate(of_this_kind)


# -- by id or name --


class SimilarNode(NamedTuple):
    """A node that is similar to another; it is linked if an edge joins the two, in either direction."""

    id: Any
    cosine: float
    linked: bool
    name: str | None
    label: str | None


class SimilarNodes(NamedTuple):
    """The nodes most similar to one, most similar first, and its id; what labels are called, None without labels."""

    nodes: list[SimilarNode]
    id: str
    has_names: bool
    label_column: str | None


def similar_nodes(folder: Path, node: str, k: int = 10, *, kind: str | None = None, unlinked: bool = False) -> SimilarNodes:
    """The nodes of a model folder that are most similar to one of them, which is named by its id or its name.

    The files that are read are checked: sizes, digests of all but the arrays of the graph, and what is read of these.
    """
    if k < 1:
        raise ClnrError(f"k (-k) must be at least 1, not {k}")

    def find() -> SimilarNodes:
        files = ArtifactFiles.open(folder)
        nodes = Nodes(load_graph(files))
        z = load_vectors(files, nodes.graph.num_nodes)
        with errors_name(folder):
            row = nodes.find(node)
        return describe_similar(z, nodes, row, k, kind=kind, unlinked=unlinked)

    return read_stable(folder, DIGESTS, find)


def describe_similar(z: Any, nodes: Nodes, node: int, k: int, *, kind: str | None, unlinked: bool) -> SimilarNodes:
    """The same of the node in a row, with what is known of each that is similar to it."""
    near, cosines = most_similar(z, nodes, node, k, kind=kind, unlinked=unlinked)
    linked, labels = nodes.graph.neighbours(node), nodes.labels_of(near)
    numbers = np.full(len(near), -1) if labels is None else labels
    classes = [nodes.graph.info.class_name(number) if number >= 0 else None for number in numbers.tolist()]
    found = zip(nodes.ids[near].tolist(), cosines.tolist(), near.tolist(), nodes.names_of(near), classes, strict=True)
    similar = [SimilarNode(each, cosine, row in linked, name or None, label) for each, cosine, row, name, label in found]
    label_column = None if labels is None else nodes.graph.info.label_column
    return SimilarNodes(similar, str(nodes.ids[node]), nodes.name_column is not None, label_column)
