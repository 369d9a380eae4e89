"""Users and items: what their vectors are compared by, in scores and in ``similar``; in memory and from files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr import NodeEmbedder
from clnr.embedding.fit_settings import Settings
from clnr.embedding.result.neighbors import similar_nodes
from clnr.embedding.result.node_ids import kind_numbers
from clnr.engine import cpu_engine
from clnr.methods import METHODS
from clnr.tables import ingest, read_tables
from tests.embedding.jobs import embed_folder

USERS, ITEMS, TASTES = 90, 60, 3
random = np.random.default_rng(0)
taste = np.arange(USERS) % TASTES
bought = [(u, i) for u in range(USERS) for i in random.permutation(np.arange(taste[u], ITEMS, TASTES))[:6]]
bought += [(int(u), int(i)) for u, i in zip(random.integers(0, USERS, 40), random.integers(0, ITEMS, 40), strict=True)]
EDGES = {("user", "bought", "item"): pa.table(dict(zip(("user", "item"), zip(*bought, strict=True), strict=True)))}
NODES = {
    "user": pa.table({"id": np.arange(USERS), "age": random.integers(20, 60, USERS)}),
    "item": pa.table({"id": np.arange(ITEMS), "price": random.random(ITEMS)}),
}
ASKED = {"dimension": 16}


@pytest.fixture(scope="module")
def embedder():
    return NodeEmbedder(effort="quick", hold_out=0.1, recipe=ASKED).fit((EDGES, NODES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return ingest(EDGES, NODES, out=tmp_path_factory.mktemp("shop") / "graph")


def tastes_of(found):
    return [int(each.partition(":")[2]) % TASTES for each in found]


def test_items_for_a_user_are_those_of_its_taste_and_edges_are_told_from_non_edges(embedder):
    for user in range(6):
        found = embedder.similar(f"user:{user}", 10, kind="item")
        assert np.mean([each == taste[user] for each in tastes_of([name for name, _ in found])]) > 0.8
        assert found[0][1] > 0.3
    assert embedder.scores_["link_auc"] > 0.7


def test_a_folder_and_new_users_are_answered_alike(embedder, tmp_path):
    embedder.save(tmp_path / "shop")
    asked = similar_nodes(tmp_path / "shop", "user:4", 5, kind="item").nodes
    assert [(each.id, pytest.approx(each.cosine, abs=1e-5)) for each in asked] == embedder.similar("user:4", 5, kind="item")
    new = pa.table({"user": [500] * 3, "item": [2, 5, 8]})
    larger = embedder.extend({("user", "bought", "item"): new}, {"user": pa.table({"id": [500], "age": [30]})})
    found = tastes_of([name for name, _ in larger.similar("user:500", 10, kind="item")])
    assert np.mean([each == 2 for each in found]) > 0.8


def test_what_is_linked_can_be_left_out(embedder, tmp_path):
    have = {f"item:{item}" for user, item in bought if user == 4}
    all_items = embedder.similar("user:4", ITEMS, kind="item")
    wanted = [each for each in all_items if each[0] not in have][:7]
    assert len(all_items) == ITEMS
    assert have & {name for name, _ in all_items[:7]}
    assert embedder.similar("user:4", 7, kind="item", unlinked=True) == wanted
    near = [name for name, _ in embedder.similar("user:4", 30, unlinked=True)]
    assert len(near) == 30
    assert not have & set(near)
    embedder.save(tmp_path / "shop")
    asked = similar_nodes(tmp_path / "shop", "user:4", 7, kind="item", unlinked=True).nodes
    assert [each.id for each in asked] == [name for name, _ in wanted]
    assert not any(each.linked for each in asked)


@pytest.mark.full
def test_from_files_scores_and_answers_are_those_of_memory(folder, embedder, tmp_path):
    settings = Settings(METHODS["SVD-mix"], cpu_engine(), recipe=ASKED, hold_out=0.1)
    found = embed_folder(folder, tmp_path / "shards", settings)
    assert found.scores["link_auc"] == pytest.approx(embedder.scores_["link_auc"], abs=0.12)
    assert not any(each.linked for each in similar_nodes(tmp_path / "shards", "user:4", 9, kind="item", unlinked=True).nodes)
    asked = similar_nodes(tmp_path / "shards", "user:4", 10, kind="item").nodes
    assert np.mean([each == taste[4] for each in tastes_of([node.id for node in asked])]) > 0.8


def test_kinds_are_numbers_only_if_there_are_several(folder):
    for graph in (folder, read_tables(EDGES, NODES)):
        assert kind_numbers(graph).tolist() == [0] * USERS + [1] * ITEMS
    friends = {("user", "knows", "user"): pa.table({"source": [0, 1], "target": [1, 2]})}
    assert kind_numbers(read_tables(friends, {"user": NODES["user"]})) is None
