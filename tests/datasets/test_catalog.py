"""The data sets by name: what they must be, what they are, and what happens when they are something else."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from clnr import Graph, load
from clnr.datasets import DATASETS, find
from clnr.errors import DataError, UnknownName
from clnr.graph import Split

AT_HAND = [name for name in DATASETS if name not in ("toy", "ogbn-arxiv")]


def test_each_row_says_where_each_file_comes_from():
    for row in DATASETS.values():
        files = row.layouts[0] if row.layouts else ()
        assert [Path(file).name for file in files] == [url.rpartition("/")[2] for url in row.urls]
        assert all(url.startswith(("https://", "http://")) for url in row.urls)


def test_an_unknown_name_suggests_the_nearest_and_lists_what_there_is():
    for typed, said in {"coar": "'cora'", "arxiv": "'ogbn-arxiv'", "": "known"}.items():
        with pytest.raises(UnknownName, match=f"unknown data set .*{said}") as caught:
            find(typed)
        assert caught.value.choices == tuple(DATASETS)


# -- the built-in graph --------------------------------------------------------------------------------------------------


def test_the_built_in_graph_is_the_same_each_time_and_needs_no_file(home):
    first, second = load(), load("Toy")
    assert first.digest == second.digest == DATASETS["toy"].content
    assert not home.exists()


# -- real data -----------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("name", AT_HAND)
def test_real_data_loads_verified_and_stays_sparse(real_data, name):
    graph = load(name, real_data)
    assert (graph.name, graph.sparse, graph.directed) == (name, True, False)
    assert (graph.features.data != 0).all()


def assert_same(graph: Graph, data) -> None:
    """A graph equals PyG's own reading of the same files."""
    source, target, weight = graph.edges()
    assert weight is None
    ours = set(zip(source.tolist(), target.tolist(), strict=True))
    assert ours == set(map(tuple, data.edge_index.T.tolist()))
    assert len(source) == data.edge_index.shape[1]
    # PyG adds up a row in float32, with up to a few hundred terms.
    np.testing.assert_allclose(graph.features.toarray(), data.x.numpy(), rtol=1e-6, atol=0)
    np.testing.assert_array_equal(graph.labels, data.y.numpy())


def copied(real_data: Path, name: str, root: Path) -> list[Path]:
    """A data set's files copied below another root."""
    files = DATASETS[name].layouts[0]
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(real_data / file, root / file)
    return [root / file for file in files]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", ["Cora", "CiteSeer", "PubMed", "Photo", "Computers"])
def test_it_equals_pygs_own_reading(real_data, tmp_path, title):
    pyg = pytest.importorskip("torch_geometric.datasets")
    normalized = pytest.importorskip("torch_geometric.transforms").NormalizeFeatures()

    copied(real_data, title.lower(), tmp_path)
    graph = load(title, real_data)
    if graph.split is None:
        assert_same(graph, pyg.Amazon(str(tmp_path / "Amazon"), title)[0])
        return
    data = pyg.Planetoid(str(tmp_path / "Planetoid"), title, transform=normalized)[0]
    assert_same(graph, data)
    for part, mask in zip(graph.split, (data.train_mask, data.val_mask, data.test_mask), strict=True):
        assert part.tolist() == mask.nonzero().reshape(-1).tolist()


def test_missing_files_are_fetched_from_their_makers_and_verified(real_data, home):
    asked = []

    def fetch(url: str, target: Path) -> None:
        asked.append(url)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(real_data / "Planetoid" / "Cora" / "raw" / url.rpartition("/")[2], target)

    assert load("cora", fetch=fetch).num_nodes == 2708
    assert asked == list(DATASETS["cora"].urls)
    assert (home / "cache" / "data" / "Planetoid" / "Cora" / "raw" / "ind.cora.graph").is_file()
    load("cora", fetch=fetch)
    assert len(asked) == 8


# -- data that is not what it must be ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda graph: {"labels": (graph.labels + 1) % 6}, "has the right sizes but altered content"),
        (lambda graph: {"features": graph.features * np.float32(2)}, "altered content"),
        (lambda graph: {"split": Split(*graph.split[::-1])}, "altered content"),
        (lambda graph: {"labels": np.r_[6, graph.labels[1:]]}, "has 7 classes instead of 6"),
        (lambda graph: {"incoming": graph.outgoing, "outgoing": graph.incoming}, None),
    ],
)
def test_altered_data_is_refused_where_it_lies(change, said):
    graph = load("toy")
    altered, files = dataclasses.replace(graph, **change(graph)), [Path("here/toy.npz")]
    if said is None:
        assert DATASETS["toy"].verify(altered, files) is altered
        return
    with pytest.raises(DataError, match=f"^toy in here {said}" if said.startswith("has") else said):
        DATASETS["toy"].verify(altered, files)
