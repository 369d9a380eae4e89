"""New tables with an earlier model; what is embedded then is tested with folders in test_artifact.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clnr.embedding.extend import read_extension
from clnr.errors import DataError
from clnr.methods import METHODS
from clnr.tables import read_tables
from tests.embedding.jobs import fit
from tests.embedding.test_fit_settings import settings


def test_the_plan_of_an_extension_counts_new_nodes_apart_from_known_ones():
    ring = pa.table({"source": range(20), "target": [*range(1, 20), 0]})
    nodes = pa.table({"id": range(21), "age": [float(i % 5) for i in range(21)]})
    earlier = fit(read_tables(ring, nodes), settings(method=METHODS["Raw"], recipe={}, evaluate=False))
    more = {"edges": pa.table({"source": [30, 31], "target": [1, 2]})}
    given = read_extension(earlier, {**more, "nodes": pa.table({"id": [30, 31, 32, 33], "age": [1.0, 2.0, 3.0, 4.0]})})
    assert given.lines[0] == "read: 4 new nodes, 2 new edges, added to 21 nodes, 20 undirected edges, 1 feature"
    assert given.facts["graph"]["nodes_without_edges"] == 3
    bare = read_extension(earlier, more)
    assert bare.facts["new_nodes"] == 2
    with pytest.raises(DataError, match=r"features of a node table: pass one \(nodes\)$"):
        read_extension(earlier, more, alone=True)
    rows = pa.table({"id": [1, 2, 30, 31], "age": [1.0, 2.0, 3.0, 4.0]})
    alone = read_extension(earlier, {**more, "nodes": rows}, alone=True)
    assert (alone.facts["new_nodes"], alone.lines[0]) == (None, "read: 4 nodes, 2 undirected edges, 1 feature")
