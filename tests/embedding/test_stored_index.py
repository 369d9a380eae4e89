"""The index of approximate search is built once for the vectors of a folder, and kept beside them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from clnr import NodeEmbedder
from clnr.embedding import stored_index
from clnr.embedding.artifact_files import INDEX, INDEX_INFO, SHARDS
from clnr.embedding.shards import Shards, shard_path, write_shard
from clnr.embedding.similar import similar_nodes
from clnr.embedding.stored_index import StoredIndex, digest_of, index_bytes
from clnr.errors import ClnrError
from clnr.graph import Graph

pytest.importorskip("usearch")

COUNT, WIDTH = 300, 8
Z = np.random.default_rng(0).normal(size=(COUNT, WIDTH)).astype(np.float32)


def write(folder: Path, number: int, z: np.ndarray = Z) -> None:
    rows = slice(100 * number, 100 * (number + 1))
    write_shard(shard_path(folder, number), pa.array(np.arange(COUNT)[rows]), z[rows])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / SHARDS).mkdir()
    for number in range(3):
        write(tmp_path, number)
    return tmp_path


@pytest.fixture
def built(monkeypatch):
    """How many nodes each index had that was built."""
    made = []
    new_index = stored_index.new_index
    monkeypatch.setattr(stored_index, "new_index", lambda *words: made.append(words[0]) or new_index(*words))
    return made


def stored_shards(folder: Path) -> Shards:
    return Shards(folder, COUNT, WIDTH, 3, (folder, ""))


def nearest(folder: Path, node: int = 7) -> set[int]:
    """As a process that has just been started finds them."""
    return set(stored_shards(folder).nearest([node], 5, approximate=True).nodes[0].tolist())


def exactly(z: np.ndarray, node: int = 7) -> set[int]:
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    return set(np.argsort(-(unit @ unit[node]))[1:6].tolist())


def test_it_is_built_by_the_first_question_alone(folder, built):
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert len(nearest(folder, 250) & exactly(Z, 250)) >= 4
    assert len(built) == 1
    assert sorted(path.name for path in folder.iterdir()) == sorted([INDEX, INDEX_INFO, SHARDS])
    # Of few nodes, the head of the file counts.
    assert (folder / INDEX).stat().st_size == pytest.approx(index_bytes(COUNT, WIDTH), rel=0.2)


def test_shards_that_were_changed_are_noticed(folder, built):
    nearest(folder)
    other = Z[::-1].copy()
    for number in range(3):
        write(folder, number, other)
    assert len(nearest(folder) & exactly(other)) >= 4
    nearest(folder)
    assert len(built) == 2


@pytest.mark.parametrize("damage", ["cut", "other", "untold", "not JSON"])
def test_what_is_not_as_it_was_written_is_built_again(folder, built, damage):
    nearest(folder)
    content = (folder / INDEX).read_bytes()
    if damage == "cut":
        (folder / INDEX).write_bytes(content[: len(content) // 2])
    elif damage == "other":
        (folder / INDEX).write_bytes(b"x" * len(content))
        os.utime(folder / INDEX, ns=(1, 1))
    elif damage == "untold":
        # As after a process that was killed before it was done.
        (folder / INDEX_INFO).unlink()
    else:
        (folder / INDEX_INFO).write_text("{")
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert len(built) == 2
    nearest(folder)
    assert len(built) == 2


def test_an_index_that_usearch_refuses_is_built_again(folder, built):
    nearest(folder)
    (folder / INDEX).write_bytes(b"x" * 1000)
    stored = StoredIndex(folder, (COUNT, WIDTH), digest_of(stored_shards(folder).paths()))
    (folder / INDEX_INFO).write_text(json.dumps(stored._info(folder / INDEX)))
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert len(built) == 2


def test_without_room_it_is_used_but_not_kept(folder, built, monkeypatch, caplog):
    caplog.set_level("INFO", "clnr")
    monkeypatch.setattr(stored_index.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert not (folder / INDEX).exists()
    assert "building the index of 300 nodes, which is kept: about 50 kB" in caplog.text
    assert "the index is not kept: " in caplog.text


def test_a_folder_of_a_graph_in_memory_keeps_one_too(tmp_path, built):
    source = np.arange(40)
    graph = Graph.from_edges(source, (source + 1) % 40, Z[:40])
    embedder = NodeEmbedder(method="Raw").fit(graph)
    embedder.save(tmp_path / "vectors", report=False)
    first, second = (similar_nodes(tmp_path / "vectors", "3", 4, approximate=True) for _ in range(2))
    assert first == second
    assert len(built) == 1
    # It is clnr's own file: the folder can be overwritten.
    embedder.save(tmp_path / "vectors", report=False, force=True)
    assert not (tmp_path / "vectors" / INDEX).exists()
    (tmp_path / "vectors" / "mine.txt").write_text("")
    with pytest.raises(ClnrError, match=r"mine\.txt"):
        embedder.save(tmp_path / "vectors", report=False, force=True)
