"""What takes a graph into memory, and what takes it into a folder, make the same graph of the same parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr.graph.folder import GraphWriter, open_graph, verify
from clnr.graph.table_info import TableInfo
from clnr.graph.writer import MemoryWriter

NODES = pa.table({"title": ["x", None, "z"]})
PARTS = {
    "incoming.indptr": [[0, 1], [2, 3]],
    "incoming.indices": [[2, 0], [], [1]],
    "incoming.weight": [[1, 2, 0.5]],
    "labels.values": [[0, -1, 1]],
}
OUTGOING = {"outgoing.indptr": [[0, 1, 2, 3]], "outgoing.indices": [[1, 2, 0]], "outgoing.weight": [[2, 0.5, 1]]}
DENSE = {"features.values": [[[1, 2]], [[3, 4], [5, 6]]]}
SPARSE = {"features.indptr": [[0, 1, 1, 2]], "features.indices": [[1, 0]], "features.values": [[3, 4]]}


@pytest.mark.parametrize("features", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("ids", [["a", "ü", ""], [7, -1, 2**40]], ids=["text", "numbers"])
def test_memory_and_folder_give_one_graph(tmp_path, features, ids):
    info, writers = TableInfo(classes=("no", "yes"), names="title", directed=True), (MemoryWriter(), GraphWriter(tmp_path))
    for writer in writers:
        for name, parts in (PARTS | OUTGOING | features).items():
            with writer.array(name) as append:
                for part in parts:
                    append(np.array(part))
        writer.ids(iter([pa.array(ids[:1]), pa.array(ids[1:])]))
        writer.columns(iter([NODES.slice(0, 1), NODES.slice(1)]), 3)
        assert writer.read_back("incoming.indices").tolist() == [2, 0, 1]
    memory, folder = writers
    graph = memory.close(info, "small", 2)
    folder.close(info, "small", 2)
    verify(tmp_path)
    stored = open_graph(tmp_path)
    assert graph.digest == stored.digest == stored.in_memory().digest
    for each in (graph, stored, stored.in_memory()):
        assert (each.name, each.info, each.num_classes, each.directed) == ("small", info, 2, True)
        assert each.ids.tolist() == ids
        assert each.columns.table().equals(NODES)
        assert each.to_scipy().toarray().tolist() == [[0, 2, 0], [0, 0, 0.5], [1, 0, 0]]
