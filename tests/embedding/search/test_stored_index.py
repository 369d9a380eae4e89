"""The index of approximate search is built once for some vectors and kept in the user's cache; no other is ever mapped."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from clnr import NodeEmbedder
from clnr.embedding.search import neighbors, stored_index
from clnr.embedding.search.similar import similar_nodes
from clnr.embedding.search.stored_index import index_bytes, new_index
from clnr.embedding.store.artifact_files import INDEX, INDEX_INFO, SHARDS
from clnr.embedding.store.shards import Shards, shard_path, write_shard
from clnr.errors import ClnrError
from clnr.graph import Graph
from tests.fuzz import examples

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
    return set(neighbors.nearest(stored_shards(folder), node, 5, approximate=True).nodes.tolist())


def exactly(z: np.ndarray, node: int = 7) -> set[int]:
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    return set(np.argsort(-(unit @ unit[node]))[1:6].tolist())


@pytest.fixture
def mapped(monkeypatch):
    """The files that were mapped. None of them is by these tests: what is not ours might end the process."""
    paths = []
    monkeypatch.setattr(stored_index, "load_index", lambda path, shape: paths.append(path))
    return paths


def kept(home: Path) -> list[Path]:
    """The files of all indexes, by name."""
    folder = home / "cache" / "neighbors"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_it_is_built_by_the_first_question_alone(folder, built, home):
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert len(nearest(folder, 250) & exactly(Z, 250)) >= 4
    assert len(built) == 1
    assert [path.name for path in folder.iterdir() if path != home] == [SHARDS]
    digest, index = kept(home)
    assert (digest.suffix, index.suffix, digest.stem) == (".sha256", ".usearch", index.stem)
    # Of few nodes, the head of the file counts.
    assert index.stat().st_size == pytest.approx(index_bytes(COUNT, WIDTH), rel=0.2)


def test_shards_that_were_changed_are_noticed(folder, built):
    nearest(folder)
    other = Z[::-1].copy()
    for number in range(3):
        write(folder, number, other)
    assert len(nearest(folder) & exactly(other)) >= 4
    nearest(folder)
    assert len(built) == 2


def test_another_folder_of_the_same_names_sizes_and_times_has_another_index(folder, built, tmp_path):
    nearest(folder)
    copy = tmp_path / "copy"
    (copy / SHARDS).mkdir(parents=True)
    for number in range(3):
        write(copy, number, Z[::-1].copy())
        time = shard_path(folder, number).stat().st_mtime_ns
        os.utime(shard_path(copy, number), ns=(time, time))
    assert len(nearest(copy) & exactly(Z[::-1].copy())) >= 4
    assert len(built) == 2


@pytest.mark.parametrize("damage", ["cut", "other", "no digest", "other digest", "not text", "no index"])
def test_what_is_not_as_it_was_written_is_built_again(folder, built, home, damage):
    nearest(folder)
    digest, index = kept(home)
    content = index.read_bytes()
    if damage == "cut":
        index.write_bytes(content[: len(content) // 2])
    elif damage == "other":
        index.write_bytes(b"x" * len(content))
    elif damage == "no digest":
        digest.unlink()
    elif damage == "other digest":
        # As after a process that was killed before it was done.
        digest.write_text("0" * 64)
    elif damage == "not text":
        digest.write_bytes(b"\xff" * 64)
    else:
        index.unlink()
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert len(built) == 2
    nearest(folder)
    assert len(built) == 2


@pytest.mark.fuzz
def test_fuzz_no_mutation_of_a_kept_index_is_mapped(folder, built, home, mapped):
    nearest(folder)
    digest, index = kept(home)
    content, told = index.read_bytes(), digest.read_bytes()
    nearest(folder)
    # As it was written, it is.
    assert mapped == [index]
    random, count = np.random.default_rng(0), examples(10)
    for case in range(count):
        changed = bytearray(content)
        for place in random.integers(0, len(content), random.integers(1, 5)):
            changed[place] ^= random.integers(1, 256)
        # The head tells usearch how much to map.
        changed[random.integers(0, 200)] ^= random.integers(1, 256)
        end = random.integers(0, len(content)) if case % 3 == 0 else len(content)
        index.write_bytes(changed[:end] + (b"more" if case % 7 == 0 else b""))
        digest.write_bytes(told)
        assert len(nearest(folder) & exactly(Z)) >= 4
    assert mapped == [index]
    assert len(built) == 2 + count


@pytest.mark.fuzz
def test_fuzz_no_index_in_a_folder_is_mapped(folder, mapped, home, tmp_path):
    """As earlier versions kept it beside the vectors, with what they checked made right."""
    index = new_index(WIDTH, "f16")
    index.add(np.arange(COUNT), Z)
    index.save(str(tmp_path / "sound"))
    content = (tmp_path / "sound").read_bytes()
    random = np.random.default_rng(1)
    for _ in range(examples(10)):
        changed = bytearray(content)
        changed[random.integers(0, len(content))] ^= random.integers(1, 256)
        (folder / INDEX).write_bytes(changed)
        plant_info(folder)
        assert len(nearest(folder) & exactly(Z)) >= 4
        for path in kept(home):
            path.unlink()
    assert mapped == []


def plant_info(folder: Path) -> None:
    """Write what earlier versions took an index by: names, sizes and times of shards, and of the index."""

    def by_times(paths) -> str:
        lines = [f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    info = {"form": 1, "vectors": by_times(stored_shards(folder).paths()), "index": by_times([folder / INDEX])}
    (folder / INDEX_INFO).write_text(json.dumps(info))


@pytest.mark.skipif(sys.platform == "win32", reason="others may write to what is theirs")
def test_a_cache_that_others_may_write_to_is_not_used(folder, built, home, mapped, caplog):
    nearest(folder)
    kept(home)[0].parent.chmod(0o777)
    caplog.set_level("INFO", "clnr")
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert (mapped, len(built)) == ([], 2)
    assert "others may write to it" in caplog.text


def test_an_index_that_usearch_refuses_is_built_again(folder, built, home):
    nearest(folder)
    digest, index = kept(home)
    index.write_bytes(b"x" * 1000)
    digest.write_text(hashlib.sha256(b"x" * 1000).hexdigest())
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert len(built) == 2


def test_another_version_of_usearch_has_an_index_of_its_own(folder, built, monkeypatch):
    nearest(folder)
    monkeypatch.setattr(stored_index, "usearch_version", lambda: "0")
    nearest(folder)
    assert len(built) == 2


def test_without_room_it_is_used_but_not_kept(folder, built, monkeypatch, caplog, home):
    caplog.set_level("INFO", "clnr")
    monkeypatch.setattr(stored_index.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert kept(home) == []
    assert "building the index of 300 nodes, which is kept: about 50 kB" in caplog.text
    assert "the index is not kept: " in caplog.text


@pytest.mark.parametrize("cache", ["a file", "no home"])
def test_without_a_cache_it_is_built_in_memory(folder, built, monkeypatch, tmp_path, cache):
    if cache == "a file":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("CLNR_HOME", str(tmp_path / "file"))
    else:
        monkeypatch.delenv("CLNR_HOME")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert len(nearest(folder) & exactly(Z)) >= 4
    assert len(built) == 2


def test_what_was_not_used_for_longest_is_removed(folder, built, home, monkeypatch):
    def make(number: int) -> Path:
        """The index of other shards."""
        before = set(kept(home))
        write(folder, 0, Z + number)
        nearest(folder)
        (path,) = {path for path in set(kept(home)) - before if path.suffix == ".usearch"}
        for each in (path, path.with_suffix(".sha256")):
            os.utime(each, ns=(number, number))
        return path

    first, second = make(1), make(2)
    left_by_a_killed_process = first.with_name(".x.usearch.clnr.part")
    left_by_a_killed_process.write_bytes(b"x")
    os.utime(left_by_a_killed_process, ns=(0, 0))
    monkeypatch.setattr(stored_index, "_MOST_BYTES", int(2.5 * second.stat().st_size))
    third = make(3)
    assert kept(home) == sorted(path.with_suffix(each) for path in (second, third) for each in (".sha256", ".usearch"))
    # The last one is kept, whatever its size.
    monkeypatch.setattr(stored_index, "_MOST_BYTES", 1)
    fourth = make(4)
    assert kept(home) == [fourth.with_suffix(".sha256"), fourth]


def test_a_question_makes_an_index_the_last_that_is_removed(folder, built, home):
    nearest(folder)
    for path in kept(home):
        os.utime(path, ns=(1, 1))
    nearest(folder)
    assert len(built) == 1
    assert all(path.stat().st_mtime_ns > 1 for path in kept(home))


def test_folders_of_a_graph_in_memory_keep_one_too(tmp_path, built, home):
    source = np.arange(40)
    graph = Graph.from_edges(source, (source + 1) % 40, Z[:40])
    embedder = NodeEmbedder(method="Raw").fit(graph)
    for name in ("vectors", "copy"):
        embedder.save(tmp_path / name, report=False)
    first, second, third = (similar_nodes(tmp_path / name, "3", 4, approximate=True) for name in ("vectors", "vectors", "copy"))
    # Equal vectors have one index, wherever they are.
    assert first == second == third
    assert len(built) == 1
    # That of an earlier version is clnr's own file: the folder can be overwritten.
    (tmp_path / "vectors" / INDEX).write_bytes(b"x")
    (tmp_path / "vectors" / INDEX_INFO).write_text("{}")
    embedder.save(tmp_path / "vectors", report=False, force=True)
    assert not (tmp_path / "vectors" / INDEX).exists()
    (tmp_path / "vectors" / "mine.txt").write_text("")
    with pytest.raises(ClnrError, match=r"mine\.txt"):
        embedder.save(tmp_path / "vectors", report=False, force=True)
