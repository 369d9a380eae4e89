"""The index of approximate search is built once for some vectors and kept in the user's cache; no other is ever mapped."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from clnr import NodeEmbedder
from clnr.embedding.search import stored_index
from clnr.embedding.search.similar import similar_nodes
from clnr.embedding.search.stored_index import digest_of, index_bytes, kept_index
from clnr.graph import Graph
from tests.fuzz import examples

pytest.importorskip("usearch")

COUNT, WIDTH = 300, 8
Z = np.random.default_rng(0).normal(size=(COUNT, WIDTH)).astype(np.float32)


def ask(z: np.ndarray = Z, vectors: str = "a digest") -> None:
    """Ask as a process that has just been started; of six that are found, five are among the twenty nearest of all."""
    index = kept_index((COUNT, WIDTH), vectors, lambda: np.split(z, 3))
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    nearest = set(np.argsort(-(unit @ unit[7]))[:20].tolist())
    assert len({*index.search(z[7], 6).keys.tolist()} & nearest) >= 5


@pytest.fixture
def built(monkeypatch):
    """The width of each index that was built."""
    widths, new = [], stored_index.new_index
    monkeypatch.setattr(stored_index, "new_index", lambda *words: widths.append(words[0]) or new(*words))
    return widths


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


def test_it_is_built_by_the_first_question_alone_and_used_last_of_all(built, home):
    ask()
    for path in kept(home):
        os.utime(path, ns=(1, 1))
    ask()
    assert len(built) == 1
    digest, index = kept(home)
    assert (digest.suffix, index.suffix, digest.stem) == (".sha256", ".usearch", index.stem)
    assert all(path.stat().st_mtime_ns > 1 for path in (digest, index))
    # Of few nodes, the head of the file counts.
    assert index.stat().st_size == pytest.approx(index_bytes(COUNT, WIDTH), rel=0.2)


def test_other_vectors_and_another_version_of_usearch_have_indexes_of_their_own(built, monkeypatch):
    ask()
    ask(Z[::-1], "another")
    monkeypatch.setattr(stored_index, "usearch_version", lambda: "0")
    ask()
    assert len(built) == 3


def test_files_of_the_same_names_sizes_and_times_are_told_apart(tmp_path):
    digests = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "shard"
        for content in (b"abc", b"xyz"):
            path.write_bytes(content)
            os.utime(path, ns=(1, 1))
            digests.append(digest_of([path]))
            os.utime(path, ns=(1, 2))
    assert len(set(digests)) == 4
    assert digest_of([path]) == digest_of([path])


def refused_by_usearch(digest: Path, index: Path) -> None:
    index.write_bytes(b"x" * 1000)
    digest.write_text(hashlib.sha256(b"x" * 1000).hexdigest())


DAMAGES = {
    "no index": lambda digest, index: index.unlink(),
    "no digest": lambda digest, index: digest.unlink(),
    # As after a process that was killed before it was done.
    "other digest": lambda digest, index: digest.write_text("0" * 64),
    "not text": lambda digest, index: digest.write_bytes(b"\xff" * 64),
    "refused by usearch": refused_by_usearch,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_not_as_it_was_written_is_built_again(built, home, damage):
    ask()
    DAMAGES[damage](*kept(home))
    for _ in range(2):
        ask()
        assert len(built) == 2


@pytest.mark.fuzz
def test_fuzz_no_mutation_of_a_kept_index_is_mapped(built, home, mapped):
    ask()
    digest, index = kept(home)
    content, told = index.read_bytes(), digest.read_bytes()
    ask()
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
        ask()
    assert mapped == [index]
    assert len(built) == 2 + count


@pytest.mark.skipif(sys.platform == "win32", reason="others may write to what is theirs")
def test_a_cache_that_others_may_write_to_is_not_used(built, home, mapped, caplog):
    ask()
    kept(home)[0].parent.chmod(0o777)
    caplog.set_level("INFO", "clnr")
    ask()
    assert (mapped, len(built)) == ([], 2)
    assert "others may write to it" in caplog.text


def test_without_room_it_is_used_but_not_kept(monkeypatch, caplog, home):
    caplog.set_level("INFO", "clnr")
    monkeypatch.setattr(stored_index.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    ask()
    assert kept(home) == []
    assert "building and caching the index of 300 nodes: about 50 kB" in caplog.text
    assert "the index was not cached: " in caplog.text


@pytest.mark.parametrize("cache", ["a file", "no home"])
def test_without_a_cache_it_is_built_in_memory(built, monkeypatch, tmp_path, cache):
    if cache == "a file":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("CLNR_HOME", str(tmp_path / "file"))
    else:
        monkeypatch.delenv("CLNR_HOME")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    ask()
    ask()
    assert len(built) == 2


def test_what_was_not_used_for_longest_is_removed(home, monkeypatch):
    def make(number: int) -> Path:
        """The index of other vectors."""
        before = set(kept(home))
        ask(Z, f"{number}")
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


def test_equal_vectors_in_folders_have_one_index_and_none_in_a_folder_is_mapped(tmp_path, built, mapped, home):
    source = np.arange(40)
    embedder = NodeEmbedder(method="Raw").fit(Graph.from_edges(source, (source + 1) % 40, Z[:40]))
    for name in ("vectors", "copy"):
        embedder.save(tmp_path / name, report=False)
    first, second = (similar_nodes(tmp_path / name, "3", 4, approximate=True) for name in ("vectors", "copy"))
    # An index that is mapped may miss one that the same index found in memory.
    assert len({each.id for each in first.nodes} & {each.id for each in second.nodes}) >= 3
    assert mapped == [kept(home)[1]]
