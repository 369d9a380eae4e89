"""The data sets by name: what they must be, what they are, and what happens when they are something else."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from clnr import Graph, load
from clnr.datasets import DATASETS, find
from clnr.errors import DataError, UnknownName

# As in the paper's table; edges are directed ones.
PAPER = {
    "cora": (2708, 10556, 1433, 7),
    "citeseer": (3327, 9104, 3703, 6),
    "pubmed": (19717, 88648, 500, 3),
    "computers": (13752, 491722, 767, 10),
    "photo": (7650, 238162, 745, 8),
    "cs": (18333, 163788, 6805, 15),
    "physics": (34493, 495924, 8415, 5),
    "ogbn-arxiv": (169343, 1166243, 128, 40),
}
PLANETOID = ["Cora", "CiteSeer", "PubMed"]
AMAZON = ["Photo", "Computers"]
AT_HAND = [name for name in PAPER if name != "ogbn-arxiv"]


def test_the_catalog_holds_the_papers_sets_and_the_built_in_graph():
    assert set(DATASETS) == {*PAPER, "toy"}


@pytest.mark.parametrize("name", PAPER)
def test_sizes_are_those_of_the_papers_table(name):
    row = DATASETS[name]
    assert (row.nodes, row.edges, row.features, row.classes) == PAPER[name]


@pytest.mark.parametrize("row", DATASETS.values(), ids=DATASETS)
def test_each_row_says_where_each_file_comes_from(row):
    assert len(row.urls) == (len(row.layouts[0]) if row.layouts else 0)
    for file, url in zip(*row.layouts[:1], row.urls, strict=True) if row.layouts else ():
        assert url.startswith(("https://", "http://"))
        assert Path(file).name == url.rpartition("/")[2]
        assert not Path(file).is_absolute()


@pytest.mark.parametrize("typed", ["cora", "Cora", "CORA", "ogbn-Arxiv", "CS", "PubMed", "Toy"])
def test_names_are_found_in_any_case(typed):
    assert find(typed).name == typed.lower()


@pytest.mark.parametrize(
    ("typed", "meant"), [("coar", "cora"), ("Citseer", "citeseer"), ("pub-med", "pubmed"), ("arxiv", "ogbn-arxiv")]
)
def test_an_unknown_name_suggests_the_nearest(typed, meant):
    with pytest.raises(UnknownName, match=f"unknown data set '{typed}'; did you mean '{meant}'\\?") as caught:
        find(typed)
    assert all(name in str(caught.value) for name in DATASETS)


@pytest.mark.parametrize("typed", ["", "zzz", "../cora", "cora\0"])
def test_a_name_like_no_other_lists_what_there_is(typed):
    with pytest.raises(UnknownName) as caught:
        find(typed)
    assert caught.value.choices == tuple(DATASETS)


# -- the built-in graph --------------------------------------------------------------------------------------------------


def test_the_built_in_graph_is_the_same_each_time_and_needs_no_file(home):
    first, second = load(), load("Toy")
    assert first.digest == second.digest == DATASETS["toy"].content
    for a, b in zip(first.edges()[:2], second.edges()[:2], strict=True):
        np.testing.assert_array_equal(a, b)
    assert not home.exists()


def test_the_built_in_graph_is_what_its_row_says():
    graph, row = load("toy"), DATASETS["toy"]
    sizes = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
    assert sizes == (row.nodes, row.edges, row.features, row.classes)
    assert graph.sparse
    assert not graph.directed
    source, target, _ = graph.edges()
    assert (source != target).all()
    assert [len(part) for part in graph.split] == [120, 500, 1000]
    assert np.bincount(graph.labels[graph.split.train]).tolist() == [20] * 6


# -- real data -----------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("name", AT_HAND)
def test_real_data_loads_verified_and_stays_sparse(real_data, name):
    graph = load(name, real_data)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == PAPER[name]
    assert graph.name == name
    assert sp.issparse(graph.features)
    assert graph.features.format == "csr"
    assert (graph.features.data != 0).all()
    assert not graph.directed
    assert (graph.split is None) == (name not in ("cora", "citeseer", "pubmed"))


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
@pytest.mark.parametrize("title", PLANETOID)
def test_planetoid_equals_pygs_own_reading(real_data, tmp_path, title):
    Planetoid = pytest.importorskip("torch_geometric.datasets").Planetoid
    NormalizeFeatures = pytest.importorskip("torch_geometric.transforms").NormalizeFeatures

    copied(real_data, title.lower(), tmp_path)
    data = Planetoid(str(tmp_path / "Planetoid"), title, transform=NormalizeFeatures())[0]
    graph = load(title, real_data)
    assert_same(graph, data)
    for part, mask in zip(graph.split, (data.train_mask, data.val_mask, data.test_mask), strict=True):
        assert part.tolist() == mask.nonzero().reshape(-1).tolist()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", AMAZON)
def test_amazon_equals_pygs_own_reading(real_data, tmp_path, title):
    Amazon = pytest.importorskip("torch_geometric.datasets").Amazon

    copied(real_data, title.lower(), tmp_path)
    assert_same(load(title, real_data), Amazon(str(tmp_path / "Amazon"), title)[0])


@pytest.mark.full
def test_another_packing_of_the_same_arrays_is_the_same_data(real_data, tmp_path):
    (file,) = copied(real_data, "photo", tmp_path)
    with np.load(file) as parts:
        arrays = {name: parts[name] for name in parts.files if parts[name].dtype != object}
    before = file.read_bytes()
    np.savez(file, **{name: arrays[name] for name in reversed(arrays)})
    assert file.read_bytes() != before
    assert load("photo", tmp_path).digest == load("photo", real_data).digest


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


def assert_refused(name: str, root: Path, files: list[Path]) -> str:
    with pytest.raises(DataError) as caught:
        load(name, root)
    said = str(caught.value)
    assert str(files[0].parent) in said
    assert "\n" not in said
    return said


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_truncated_planetoid_data_is_refused(real_data, tmp_path, part, kept):
    files = copied(real_data, "cora", tmp_path)
    content = files[part].read_bytes()
    files[part].write_bytes(content[: int(len(content) * kept)])
    assert_refused("cora", tmp_path, files)


def test_two_test_nodes_swapped_are_noticed(real_data, tmp_path):
    """Same sizes, same files but for one pair of lines: only the content's digest can tell."""
    files = copied(real_data, "cora", tmp_path)
    lines = files[7].read_text().splitlines()
    files[7].write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert "altered content" in assert_refused("cora", tmp_path, files)


def test_a_changed_number_in_a_pickle_is_noticed(real_data, tmp_path):
    files = copied(real_data, "cora", tmp_path)
    content = bytearray(files[2].read_bytes())
    one = np.float32(1).tobytes()
    place = content.rindex(one * 8)
    content[place : place + 4] = np.float32(2).tobytes()
    files[2].write_bytes(content)
    assert "altered content" in assert_refused("cora", tmp_path, files)


def test_files_of_another_set_are_noticed(real_data, tmp_path):
    files = copied(real_data, "cora", tmp_path)
    for file in files:
        other = file.name.replace("cora", "citeseer")
        shutil.copyfile(real_data / "Planetoid" / "CiteSeer" / "raw" / other, file)
    said = assert_refused("cora", tmp_path, files)
    assert "3,327 nodes where 2,708 are right" in said


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_truncated_npz_data_is_refused(real_data, tmp_path, kept):
    files = copied(real_data, "photo", tmp_path)
    content = files[0].read_bytes()
    files[0].write_bytes(content[: int(len(content) * kept)])
    assert_refused("photo", tmp_path, files)


def with_label(arrays: dict[str, np.ndarray]) -> None:
    arrays["labels"] = arrays["labels"].copy()
    arrays["labels"][0] = (arrays["labels"][0] + 1) % 8


def with_class(arrays: dict[str, np.ndarray]) -> None:
    arrays["labels"] = arrays["labels"].copy()
    arrays["labels"][0] = 8


def without_row(arrays: dict[str, np.ndarray]) -> None:
    arrays["adj_indptr"] = arrays["adj_indptr"].copy()
    arrays["adj_indptr"][1:] -= arrays["adj_indptr"][1]
    arrays["adj_indices"] = arrays["adj_indices"][-arrays["adj_indptr"][-1] :]
    arrays["adj_data"] = arrays["adj_data"][-arrays["adj_indptr"][-1] :]


def with_word(arrays: dict[str, np.ndarray]) -> None:
    arrays["attr_indices"] = arrays["attr_indices"].copy()
    row = arrays["attr_indices"][: arrays["attr_indptr"][1]]
    row[0] = next(word for word in range(745) if word not in row)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_label, "altered content"),
        (with_class, "9 classes where 8 are right"),
        (without_row, "edges where 238,162 are right"),
        (with_word, "altered content"),
    ],
)
def test_altered_npz_data_is_refused(real_data, tmp_path, change, message):
    files = copied(real_data, "photo", tmp_path)
    with np.load(files[0]) as parts:
        arrays = {name: parts[name] for name in parts.files if name.startswith(("adj", "attr", "labels"))}
    change(arrays)
    np.savez(files[0], **arrays)
    assert message in assert_refused("photo", tmp_path, files)


@pytest.mark.full
def test_loading_leaves_the_data_folder_as_it_was(real_data, tmp_path):
    copied(real_data, "cora", tmp_path / "root")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "root").rglob("*")}
    load("cora", tmp_path / "root")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "root").rglob("*")} == before
