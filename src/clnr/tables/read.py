"""A graph from tables, in memory or in a folder: one loader, whose steps are the same for both."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from clnr.errors import DataError, option
from clnr.graph import Graph
from clnr.graph.folder import FEATURE_TYPES, GraphWriter, is_graph_folder, open_graph
from clnr.graph.manifest import GRAPH_FILES
from clnr.graph.table_info import TableInfo
from clnr.graph.writer import MemoryWriter
from clnr.support.arguments import LEAST_MEMORY, check_choice, check_memory, check_type
from clnr.support.humanize import gigabytes, parse_bytes, plural
from clnr.support.machine.memory import unused_memory
from clnr.support.storage import OwnFiles, check_folder, reserve_folder, resolve_path, temporary_path, write_folder
from clnr.tables.column_report import describe_tables
from clnr.tables.edges import Staged, edges_title, leave_out_zeros, merge_edges, stage_edges, write_edges
from clnr.tables.extension import Extension
from clnr.tables.features import choose_encoder, write_features, write_structure
from clnr.tables.guards import alike_rows, check_labels_hidden, check_unknown_ends
from clnr.tables.io.feature_matrix import FeatureMatrix
from clnr.tables.io.open import is_node_link, open_table
from clnr.tables.io.sql import Connection, connect, copies_folder
from clnr.tables.kinds import NamedTable, edges_by_kind, node_kinds, nodes_by_kind
from clnr.tables.node_rows import (
    StagedNodes,
    add_nodes,
    are_whole,
    column_parts,
    digest_unused,
    fit_integers,
    name_column,
    number_ids,
    stage_nodes,
    write_ids,
    write_labels,
)
from clnr.tables.roles import (
    NodeRoles,
    check_named,
    check_no_counters,
    check_one_kind,
    edge_roles,
    known_names,
    no_ends,
    node_roles,
)
from clnr.tables.table_arguments import TableArguments, check_arguments, takes

MEMORY = "4 GB"
OWN_FILES = OwnFiles(GRAPH_FILES, is_graph_folder)
"""How to recognise a graph folder that clnr wrote."""
# What Python needs beside DuckDB, for rows that are being encoded and written.
_PYTHON_BYTES = 800_000_000
# DuckDB takes one of these parts of what is unused, if nothing is said; the graph needs about two. Below the least, it fails.
_DUCKDB_PARTS, _LEAST_DUCKDB_BYTES = 3, 100_000_000


@takes(TableArguments)
def read_tables(edges: Any = None, nodes: Any = None, **named: Any) -> Graph:
    """Read a graph from a table of edges and one of nodes, or extend an earlier graph by such tables.

    >>> import pyarrow
    >>> from clnr import read_tables
    >>> edges = pyarrow.table({"source": ["ann", "bob"], "target": ["bob", "cy"]})
    >>> nodes = pyarrow.table({"id": ["ann", "bob", "cy"], "age": [30, 40, 55], "vip": [True, False, False]})
    >>> graph = read_tables(edges, nodes)
    >>> graph
    Graph(graph: 3 nodes, 4 edges, 2 dense features)
    >>> graph.ids.tolist()
    ['ann', 'bob', 'cy']

    What a name or a type declares is read; what only a guess could tell is an error that says what to declare.

    Args:
        edges: A CSV, Parquet or JSON file, a glob of them, or a data frame; or one SELECT in DuckDB's SQL, which can only
            read local files: ``SELECT a AS source, b AS target FROM 'trades.parquet'``. None to add only nodes to ``base``.
            For several kinds of edges, a dictionary of tables by name; between kinds of nodes, by source, relation and
            target, as in PyG: ``{("user", "bought", "item"): "purchases.csv"}``. The weights of each kind are normalised by
            the degrees in that kind.
        nodes: Likewise, one row per node; None: features come from the structure of the graph. For several kinds of nodes, a
            dictionary of tables by name: ``{"user": "users.csv", "item": "items.csv"}``. User 7 then has the id ``user:7``,
            and ``columns`` has its ``node_kind`` and ``original_id``. ``user.age`` names a column of one table.
        feature_matrix: More features: a NumPy or SciPy array, or a file, ``.npy`` or ``.npz`` (SciPy's).
            Row i belongs to row i of the node table or, without one, to node i.
        source: Column of sources; default: one with a common name, such as source or from, or that of the kind of nodes; of a
            table of two columns beside weights, one of these.
        target: Column of targets, likewise.
        weight: Column of weights; default: one called weight, else none. A list, if tables of edges have different ones.
        until: Leave out later edges, by a column of times or numbers: ``date=2020-12-31``; also a month, a year or a number.
        directed: Whether edges are directed; default: as in ``base``, else no.
        unknown_ends: What becomes of edges with an end that the node table lacks: ``keep`` makes nodes with empty columns of
            these, ``drop`` leaves the edges out. Default: they are left out, unless they are most edges, which is an error.
        id: Column of node ids; default: id, node or key, the name of the kind or of an end, or the first column, if all its
            values differ.
        label: Column of labels, if there is one; never a feature.
        names: Column of node names, for reports and search; never a feature. Default: one called name, title or label
            nearly all of whose values differ.
        features: Columns of the node table that are features; default: all that can be.
        ignore: Columns of either table that are not used.
        types: Types of columns of the node table by name: ``number``, ``category``, ``text``, ``time``, ``list`` or
            ``boolean``. Default: by their values.
        header: Whether text files have a header line; default: decided by its names and the rows below, else an error.
        encoding: Encoding of text files, such as ``cp1252``; default: UTF-8, or UTF-16 with its mark.
        base: An earlier graph to extend: its nodes come first, in their order, and columns are read as for it. New rows
            replace those of the same nodes, and new weights those of the same edges.
        encoder: ``info.encoder`` of an earlier graph, to read columns in the same way.
        memory: A limit on DuckDB's memory while reading, such as ``4 GB``; if not given, a third of what is unused,
            also in a container. Features, edges and node columns come on top of it.
        name: What to call the graph.
        progress: Called with a line now and then.
    """
    arguments = check_arguments("read_tables", edges, nodes, **named)
    unused, limit = unused_memory(), arguments.memory
    if limit is not None and parse_bytes(limit) is None:
        raise DataError(f"{option('memory')} must be an amount such as '4 GB', not '{limit}'")
    if limit is None and unused is not None:
        limit = f"{max(_LEAST_DUCKDB_BYTES, unused // _DUCKDB_PARTS)} B"
    with contextlib.closing(connect(limit)) as db:
        writer = MemoryWriter()
        info, features = load(db, arguments, writer)
    graph = writer.close(info, arguments.graph_name, features)
    return graph if arguments.base is None else replace(graph, split=arguments.base.split)


def ingest(
    edges: Any = None,
    nodes: Any = None,
    *,
    out: str | Path,
    dtype: str = "float32",
    memory: str = MEMORY,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
    **named: Any,
) -> Graph:
    """Write tables as a graph folder: the graph of ``read_tables``, in bounded memory whatever its size.

    On top of ``memory`` come the texts of classes, words and categories, and one number per node for structural features.

    Args:
        edges: As for ``read_tables``.
        nodes: As for ``read_tables``.
        out: The folder to write. Meanwhile DuckDB spills to a folder next to it.
        dtype: How features are stored: ``float32`` or ``float16``.
        memory: How much memory may be used, such as ``4 GB``; no more than is unused, also in a container.
        force: Whether a graph folder that clnr wrote may be overwritten.
        progress: Called with a line about each step.
        named: Names of columns, and other arguments of ``read_tables``, except ``base``.
    """
    check_choice("dtype", dtype, FEATURE_TYPES)
    check_type("memory", memory, str, "text", DataError)
    if named.get("base") is not None:
        raise DataError("ingest cannot extend a graph; use read_tables(base=...)")
    amount, unused = check_memory(memory), unused_memory()
    amount = amount if unused is None else min(amount, unused)
    if amount < LEAST_MEMORY:
        raise DataError(f"1 GB of memory is needed to write a graph folder, and {gigabytes(amount)} are free; free some")
    arguments = check_arguments("ingest", edges, nodes, progress=progress, **named)
    path = Path(out)
    with reserve_folder(path):
        check_folder(path, force, OWN_FILES)
        with (
            _spill(resolve_path(path)) as spill,
            write_folder(path, force, OWN_FILES) as part,
            contextlib.closing(connect(f"{amount - _PYTHON_BYTES} B", spill)) as db,
        ):
            writer = GraphWriter(part, dtype)
            info, features = load(db, arguments, writer)
            writer.close(info, arguments.graph_name, features)
    return open_graph(path)


@contextlib.contextmanager
def _spill(path: Path) -> Iterator[Path]:
    """A folder beside another for what DuckDB spills; leftovers of a killed process are removed first."""
    spill = temporary_path(path, "spill")
    folders = spill, copies_folder(spill)
    with contextlib.ExitStack() as stack:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield spill


def load(db: Connection, arguments: TableArguments, writer: Any) -> tuple[TableInfo, int]:
    """Read tables, and hand all parts of their graph to a writer; how they were read, and the number of features."""
    say = arguments.progress or (lambda line: None)
    base, kinds = arguments.base, node_kinds(arguments.edges, arguments.nodes)
    edges, nodes = _open(db, arguments)
    title = edges_title(edges)
    say("reading the tables")
    counts, notes = stage_edges(db, edges, arguments) if edges else ({"rows": 0}, [])
    ends = [each.table.columns[end] for each, roles in edges for end in (roles.source, roles.target)]
    whole = not kinds and are_whole([*ends, *(each.table.columns[roles.id] for each, roles in nodes)])
    extension = None if base is None else Extension(db, base, whole)
    whole = whole if extension is None else extension.whole
    staged = stage_nodes(db, nodes, kinds, arguments, whole)
    notes += _add_nodes(db, staged, kinds, arguments)
    count = number_ids(db, None if base is None else base.num_nodes)
    if not count:
        raise DataError("the graph has no nodes")
    whole = whole and fit_integers(db)
    staged = staged._replace(whole=whole)
    write_ids(db, writer, whole)
    say("merging repeated edges")
    factors: dict[str, float] = {}
    if edges:
        notes += check_unknown_ends(db, title, staged.table.name, arguments.unknown_ends, counts)
        factors, more = merge_edges(db, title, arguments, counts)
        notes += more
    if base is not None and extension is not None:
        notes += extension.merge_edges(edges=bool(edges), directed=arguments.is_directed)
        factors = dict(base.info.edge_kinds)
    if edges:
        notes += leave_out_zeros(db, title, extends=base is not None)
    write_edges(db, writer, count, arguments.is_directed, title)
    encoder, more = choose_encoder(db, staged, arguments)
    notes += more
    parts = writer if extension is None else extension.parts(staged)
    classes, more = write_labels(db, parts, staged, () if base is None else base.class_names)
    notes += more
    if arguments.fitted is None:
        check_labels_hidden(db, staged, encoder, arguments.names_of("features"))
        notes += alike_rows(db, staged, encoder)
    say("writing features")
    if encoder.encodes:
        write_features(db, parts, staged, encoder, arguments)
    else:
        encoder = replace(encoder, structure=write_structure(writer, count, encoder.structure, arguments.is_directed))
    if nodes or kinds:
        parts.columns(column_parts(db, staged), count)
    if extension is not None:
        extension.write(writer, encoder.encodes)
    columns = describe_tables(db, edges, staged, encoder)
    unused = digest_unused(db, staged, {each.column for each in encoder.columns})
    notes += _isolated(writer, count, arguments.is_directed)
    info = TableInfo(
        columns=columns if extension is None else extension.with_columns(columns),
        classes=classes,
        names=name_column(staged) if base is None else base.info.names,
        directed=arguments.is_directed,
        node_kinds=kinds if base is None else base.info.node_kinds,
        edge_kinds=factors,
        counts=counts,
        notes=tuple(sorted(notes, key=lambda note: not note.startswith("warning: "))),
        encoder=encoder.to_json(),
        unused=unused,
    )
    return info, encoder.width


def _open(db: Connection, arguments: TableArguments) -> tuple[Staged, list[tuple[NamedTable, NodeRoles]]]:
    """The tables, opened, and which of their columns hold what."""
    given, of_nodes = edges_by_kind(arguments.edges), nodes_by_kind(arguments.nodes)
    if not of_nodes and len(given) == 1 and given[0].kind is None and is_node_link(db, given[0].table, arguments.encoding):
        of_nodes = (NamedTable(given[0].table),)
    if not of_nodes and arguments.feature_matrix is not None and arguments.base is None:
        import pyarrow as pa

        of_nodes = (NamedTable(pa.table({"id": np.arange(FeatureMatrix.open(arguments.feature_matrix).shape[0])})),)

    def opened(named: NamedTable, role: str) -> NamedTable:
        called = role if named.kind is None else f"{role} {named.kind}"
        known = known_names(arguments, named)
        return named._replace(table=open_table(db, named.table, called, known, arguments.header, arguments.encoding))

    edges, nodes = [opened(each, "edges") for each in given], [opened(each, "nodes") for each in of_nodes]
    if arguments.feature_matrix is not None and (mixed := [each.table.name for each in nodes if not each.table.in_order]):
        raise DataError(f"{mixed[0]}: end it with ORDER BY: row i of it and of the feature matrix must be the same node")
    check_named(arguments, edges, nodes)
    found = [(each, edge_roles(each, arguments)) for each in edges]
    tables = []
    for each in nodes:
        ends = [
            end
            for named, roles in found
            if roles is not None
            for kind, end in zip(named.ends or (None, None), (roles.source, roles.target), strict=True)
            if kind == each.kind
        ]
        same = (each.table.name, [*each.table.columns])
        is_of_edges = any((named.table.name, [*named.table.columns]) == same for named, _ in found)
        tables.append((each, node_roles(each, arguments, ends, is_of_edges, db)))
    staged = []
    for named, roles in found:
        if roles is None:
            raise no_ends(db, named.table, tables)
        for each, of in tables if named.ends is None and arguments.base is None else ():
            check_one_kind(named.table, roles, each.table, of)
        if arguments.base is None:
            check_no_counters(db, named.table, roles)
        staged.append((named, roles))
    return staged, tables


def _add_nodes(db: Connection, staged: StagedNodes, kinds: tuple[str, ...], arguments: TableArguments) -> list[str]:
    """Add nodes that edges alone name: of kinds without a table, all without one, or those that the user keeps."""
    known, with_table = arguments.base is not None, {each.kind for each in staged.kinds}
    bare = [kind for kind in kinds if kind not in with_table]
    keep = arguments.unknown_ends == "keep"
    if arguments.edges is None:
        return []
    notes = []
    for kind in kinds if kinds else (None,):
        if kind in bare or keep or not with_table:
            added = add_nodes(db, staged, kind, known)
            if kind in with_table and added:
                notes.append(f"added: {plural(added, 'node')} that {staged.table.name} lacks, with empty columns")
            elif kind is not None and with_table and added:
                notes.append(f"nodes of the kind '{kind}' have no table; they come from the edges")
    return notes


def _isolated(writer: Any, count: int, directed: bool) -> list[str]:
    """A note on nodes without edges."""
    degrees = sum(
        np.diff(writer.read_back(f"{way}.indptr")) for way in (("incoming", "outgoing") if directed else ("incoming",))
    )
    alone = int((degrees == 0).sum())
    has, come = ("has", "its vector comes from its") if alone == 1 else ("have", "their vectors come from their")
    return [f"{plural(alone, 'node')} {has} no edges: {come} features alone"] if alone else []
