"""A graph in memory written as a graph folder: for benchmarks and tests, where users have tables (``clnr ingest``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from clnr.graph import Graph
from clnr.graph.csr import CSR, Array
from clnr.graph.folder_writer import FolderWriter
from clnr.graph.graph_folder import GraphFolder


def write_graph(graph: Graph, path: Path, feature_type: str = "float32") -> GraphFolder:
    """Write a graph in memory, whose ids are numbers or text, to a folder that is not there yet."""
    path.mkdir(parents=True)
    writer, x = FolderWriter(path, feature_type), graph.features
    arrays: dict[str, tuple[str, Array]] = {}
    for way in ("incoming", "outgoing") if graph.directed else ("incoming",):
        edges: CSR = getattr(graph, way)
        arrays |= {f"{way}.indptr": ("int64", edges.indptr), f"{way}.indices": ("int32", edges.indices)}
        if edges.weight is not None:
            arrays[f"{way}.weight"] = "float32", edges.weight
    if sp.issparse(x):
        arrays |= {"features.indptr": ("int64", x.indptr), "features.indices": ("int32", x.indices)}
    arrays["features.values"] = feature_type, x.data if sp.issparse(x) else x
    ids = pa.array(graph.node_ids)
    if pa.types.is_integer(ids.type):
        arrays["ids.values"] = "int64", ids.to_numpy()
    else:
        text = ids.cast(pa.large_string())
        offsets = np.frombuffer(text.buffers()[1], np.int64)[: len(text) + 1]
        content = np.frombuffer(text.buffers()[2] or b"", np.uint8)[: offsets[-1]]
        arrays |= {"ids.offsets": ("int64", offsets), "ids.text": ("uint8", content)}
    if graph.labels is not None:
        arrays["labels.values"] = "int64", graph.labels
    for name, (dtype, values) in arrays.items():
        with writer.array(name, dtype, None if values.ndim == 1 else values.shape[1]) as append:
            append(values)
    sizes = {"nodes": graph.num_nodes, "features": graph.num_features, "classes": graph.num_classes}
    writer.close(**sizes, directed=graph.directed, name=graph.name)
    return GraphFolder.open(path)
