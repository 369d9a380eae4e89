from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from sklearn.metrics import adjusted_rand_score, silhouette_score

from clnr import Graph, read_tables
from clnr.embedding.result import clusters
from clnr.embedding.result.clusters import find_clusters, silhouette
from clnr.embedding.result.export import write_clusters
from clnr.embedding.result.nodes import Nodes
from clnr.errors import ClnrError
from tests.command_line import run_script


def nodes_of(count, **more):
    return Nodes(Graph.from_edges([], [], np.zeros((count, 1)), **more))


def planted(sizes, width=16, noise=0.1, seed=0):
    """Rows about one direction for each cluster, of any length, in a random order; and the cluster of each."""
    random = np.random.default_rng(seed)
    groups = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    directions = np.linalg.qr(random.normal(size=(width, len(sizes))))[0].T
    z = directions[groups] + noise * random.normal(size=(len(groups), width))
    return (z * random.uniform(0.1, 10, (len(groups), 1))).astype(np.float32), groups


@pytest.mark.parametrize("sizes", [[90, 60], [80, 70, 60, 30], [50, 45, 40, 35, 30, 25, 20]])
@pytest.mark.parametrize("fitted", [10_000, 120])
def test_planted_clusters_are_found_with_their_number(sizes, fitted, monkeypatch):
    monkeypatch.setattr(clusters, "_FITTED_NODES", fitted)
    monkeypatch.setattr(clusters, "_BLOCK_ROWS", 13)
    z, groups = planted(sizes)
    found = find_clusters(z, nodes_of(len(z)))
    assert adjusted_rand_score(groups, found.assignment) == 1
    assert sorted((each.size for each in found.clusters), reverse=True) == sizes
    assert [each.number for each in found.clusters] == list(range(len(sizes)))
    assert found.silhouette > 0.25


def test_clusters_of_a_kind_are_those_of_its_rows_alone(tmp_path):
    z, _ = planted([40, 30, 20])
    edges = pa.table({"user_id": np.arange(90), "item_id": np.arange(90) % 60})
    nodes = Nodes(read_tables({("user", "bought", "item"): edges}))
    kinds = np.array([each.partition(":")[0] for each in nodes.ids[np.arange(150)].tolist()])
    rows = np.random.default_rng(1).normal(size=(150, z.shape[1])).astype(np.float32)
    rows[kinds == "user"] = z
    found, alone = find_clusters(rows, nodes, kind="user"), find_clusters(z, nodes_of(90))
    assert len(alone.clusters) == 3
    np.testing.assert_array_equal(found.assignment[kinds == "user"], alone.assignment)
    assert set(found.assignment[kinds == "item"]) == {-1}
    assert [each.size for each in found.clusters] == [each.size for each in alone.clusters]
    assert found.silhouette == pytest.approx(alone.silhouette)
    assert all(node.startswith("user:") for each in found.clusters for node in each.typical)
    assert [line.partition(" nodes, ")[0] for line in repr(found).splitlines()] == [
        f"{each.title}: {each.size}" for each in found.clusters
    ]
    for name in ("c.csv", "c.parquet"):
        write_clusters(nodes.graph, found.assignment, tmp_path / name)
    assert pq.read_table(tmp_path / "c.parquet").to_pylist() == csv.read_csv(tmp_path / "c.csv").to_pylist()
    written = dict(zip(*pq.read_table(tmp_path / "c.parquet").to_pydict().values(), strict=True))
    ids = nodes.ids[np.arange(150)].tolist()
    assert written == {ids[i]: found.assignment[i] for i in range(150) if kinds[i] == "user"}
    with pytest.raises(ClnrError, match="did you mean 'user'"):
        find_clusters(rows, nodes, kind="users")
    with pytest.raises(ClnrError, match=r"nodes of this graph have no kinds: leave out kind$"):
        find_clusters(z, nodes_of(90), kind="user")


def test_typical_nodes_are_the_nearest_to_the_mean_of_unit_rows():
    z, groups = planted([40, 30, 20])
    found = find_clusters(z, nodes_of(90, ids=[f"n{i}" for i in range(90)]), 3)
    unit = z.astype(float) / np.linalg.norm(z.astype(float), axis=1, keepdims=True)
    for number, cluster in enumerate(found.clusters):
        members = np.flatnonzero(groups == number)
        distance = np.linalg.norm(unit[members] - unit[members].mean(0), axis=1)
        nearest = members[np.argsort(distance)[:5]]
        assert cluster.typical == tuple(f"n{i}" for i in nearest)
        assert (found.assignment[members] == number).all()


def test_without_clear_clusters_there_are_eight_or_fewer_in_a_small_graph():
    random = np.random.default_rng(0)
    for count, usual in ((900, 8), (60, 8), (30, 5), (10, 3)):
        z = random.normal(size=(count, 64)).astype(np.float32)
        found = find_clusters(z, nodes_of(count))
        assert len(found.clusters) == usual
        assert sum(each.size for each in found.clusters) == count
        assert found.silhouette < 0.25


def test_rows_that_are_alike_are_one_cluster():
    assert find_clusters(np.zeros((0, 4)), nodes_of(0)).clusters == ()
    assert [each.size for each in find_clusters(np.eye(2), nodes_of(2)).clusters] == [2]
    for z in (np.zeros((9, 4)), np.ones((9, 4)), np.ones((1, 4)), np.zeros((9, 0))):
        for count in (None, *([3] if len(z) > 1 else [])):
            found = find_clusters(z, nodes_of(len(z)), count)
            assert [each.size for each in found.clusters] == [len(z)]
            assert found.to_dict()["silhouette"] is None


def test_a_wrong_number_is_refused():
    for count in (1, -1, 10):
        with pytest.raises(ClnrError, match=f"must be from 2 to 9, not {count}"):
            find_clusters(np.eye(9), nodes_of(9), count)


def test_the_silhouette_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    for count in (2, 5, 12):
        z = random.normal(size=(50, 3))
        # Each cluster has a node, and some only one.
        assignment = np.concatenate([np.arange(count), random.integers(0, 2, 50 - count)])
        distances = np.linalg.norm(z[:, None] - z, axis=2)
        assert silhouette(distances, assignment) == pytest.approx(silhouette_score(z, assignment))


SCRIPT = """
import hashlib, numpy as np
from tests.embedding.result.test_clusters import find_clusters, nodes_of, planted
z, _ = planted([900, 700, 500, 300, 100], width=96, noise=0.6)
print(hashlib.sha256(find_clusters(z, nodes_of(len(z))).assignment.tobytes()).hexdigest())
"""


@pytest.mark.full
def test_clusters_do_not_depend_on_the_number_of_threads():
    made = {run_script(SCRIPT, OPENBLAS_NUM_THREADS=n, OMP_NUM_THREADS=n).stdout for n in ("1", "4")}
    assert len(made) == 1
    assert len(made.pop()) == 65
