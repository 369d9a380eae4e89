"""A sampled step on a graph in files computes what it computes on the same graph in memory."""

import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from clnr import methods
from clnr.engine import choose
from clnr.engine.blocks import BlockEngine, ReadAhead, averaging_rows, in_blocks
from clnr.engine.cpu.csr_arrays import CSRArrays, GraphRows
from clnr.errors import DataError
from clnr.graph.csr import median_weight
from clnr.graph.folder import FEATURE_TYPES, map_array, open_graph
from clnr.methods.presets import preset
from clnr.tables import ingest
from clnr.training.loop import fit

NODES = 400


def written(folder, *, weighted=False, directed=False, sparse=False, dtype="float32"):
    """A random graph in a folder; a few nodes have no edges."""
    random = np.random.default_rng(3)
    source, target = random.integers(0, NODES - 5, (2, 1500))
    edges = {"source": source, "target": target}
    if weighted:
        edges["weight"] = random.integers(1, 5, 1500).astype(float)
    nodes = {"id": np.arange(NODES), "x": random.normal(size=(NODES, 12)).tolist()}
    if sparse:
        kinds = [f"k{i}" for i in random.integers(0, 60, NODES)]
        nodes = {"id": np.arange(NODES), "kind": kinds, "size": random.normal(size=NODES)}
    return ingest(pa.table(edges), pa.table(nodes), out=folder / "graph", directed=directed, dtype=dtype)


def trained(device_graph, engine, **changes):
    options = {"epochs": 4, "hidden": 16, "dimension": 16, "sampled_nodes": 64, "moments": "sampled", **changes}
    recipe = preset(methods.CLNR, None).recipe.but(**options)
    return fit(methods.CLNR.build(recipe), engine, device_graph, recipe, 0)


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {}),
        ({"weighted": True}, {}),
        ({"directed": True, "weighted": True}, {"layers": 3}),
        ({}, {"edge_drop_mode": "pairs", "feature_mask_mode": "elements"}),
        ({}, {"max_neighbors": 2}),
        ({"sparse": True}, {}),
        ({"sparse": True}, {"feature_mask_mode": "elements"}),
        ({"dtype": "float16"}, {"edge_drop": 0.0, "feature_mask": 0.0}),
        ({}, {"encoder": "mlp"}),
        ({}, {"encoder": "gcn-bn"}),
    ],
    ids=str,
)
def test_training_from_files_is_training_in_memory(tmp_path, options, changes):
    engine, folder = choose("cpu"), written(tmp_path, **options)
    loop_weight = median_weight(folder.incoming.weight)
    assert loop_weight == (2 if options.get("weighted") else 1)
    from_files = trained(in_blocks(folder, loop_weight), engine, **changes)
    in_memory = trained(engine.to_device(folder.in_memory(), loop_weight), engine, **changes)
    exact = not options.get("sparse") and "encoder" not in changes
    for name, value in in_memory.parameters.items():
        found = from_files.parameters[name]
        assert torch.equal(found, value) if exact else torch.allclose(found, value, rtol=1e-3, atol=1e-5)
    assert torch.allclose(from_files.losses, in_memory.losses, rtol=0 if exact else 1e-4)


@pytest.mark.parametrize("dtype", FEATURE_TYPES)
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_those_of_the_matrix_in_any_order(tmp_path, dtype, sparse):
    folder = written(tmp_path, dtype=dtype, sparse=sparse)
    device_graph, whole = in_blocks(folder), folder.in_memory().features
    for nodes in (np.random.default_rng(0).permutation(NODES)[:50], np.array([5]), np.empty(0, np.int64)):
        wanted = whole[nodes].toarray() if sparse else whole[nodes]
        np.testing.assert_array_equal(device_graph.dense_rows(nodes), wanted)


DAMAGE = {
    "a row before the file": ("incoming.indptr", 7, -1, {}, "row 6 is from entry"),
    "a row that ends before it begins": ("incoming.indptr", 7, 0, {}, "row 6 is from entry"),
    "an edge from nowhere": ("incoming.indices", 3, NODES, {}, r"row \d+ has column 400, and they must be"),
    "an edge twice": ("incoming.indices", "last", "before", {}, r"row \d+ has column \d+, and they must be sorted"),
    "a negative weight": ("incoming.weight", 5, -1.0, {"weighted": True}, r"row \d+ has -1.0, and numbers must be"),
    "a weight that is no number": ("incoming.weight", 5, np.nan, {"weighted": True}, r"row \d+ has nan, and numbers must be"),
    "weights beyond float32": ("incoming.weight", "all", 3e38, {"weighted": True}, r"weights of row \d+ add up to more"),
    "a feature that is no number": ("features.values", 12 * 9, np.nan, {}, "row 9 has a number that is not finite"),
    "an infinite half": ("features.values", 12 * 9 + 11, -np.inf, {"dtype": "float16"}, "row 9 has a number"),
    "sparse: a column beyond": ("features.indices", 0, 999, {"sparse": True}, "row 0 has column 999, and they must be below"),
    "sparse: a number that is infinite": ("features.values", 0, np.inf, {"sparse": True}, "row 0 has inf"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_cannot_be_is_noticed_where_it_is_read(tmp_path, case):
    name, place, value, options, said = DAMAGE[case]
    folder = written(tmp_path, **options)
    path = folder.stored.path / f"{name}.bin"
    dtypes = {"indptr": "<i8", "indices": "<i4", "weight": "<f4", "values": folder.features.dtype}
    values = np.fromfile(path, dtypes[name.partition(".")[2]])
    if place == "last":
        place = np.flatnonzero(np.diff(np.fromfile(folder.stored.path / "incoming.indptr.bin", "<i8")) > 1)[-1]
        place = np.fromfile(folder.stored.path / "incoming.indptr.bin", "<i8")[place + 1] - 1
        value = values[place - 1]
    values[slice(None) if place == "all" else place] = value
    values.tofile(path)
    graph, nodes = in_blocks(open_graph(folder.stored.path)), np.arange(NODES)
    read = graph.read if name.startswith("features") else GraphRows(graph).count
    with pytest.raises(DataError, match=rf"{name}\.bin: it is damaged, or was changed: .*{said}") as caught:
        read(nodes)
    assert "\n" not in str(caught.value)
    if name.startswith("incoming") and place != "all":
        with pytest.raises(DataError, match=rf"{name}\.bin: it is damaged, or was changed: .*{said}"):
            averaging_rows(graph, np.arange(NODES))


@pytest.mark.parametrize("dtype", FEATURE_TYPES)
def test_numbers_at_the_ends_of_their_range_are_read(tmp_path, dtype):
    folder = written(tmp_path, dtype=dtype)
    largest = torch.finfo(getattr(torch, dtype))
    ends = torch.tensor([largest.max, largest.min, largest.tiny, 0.0, -0.0], dtype=getattr(torch, dtype))
    path = folder.stored.path / "features.values.bin"
    content = bytearray(path.read_bytes())
    stored = ends.view(torch.int16 if ends.element_size() == 2 else torch.int32).numpy().tobytes()
    content[: len(stored)] = stored
    path.write_bytes(content)
    found = in_blocks(open_graph(folder.stored.path)).read(np.arange(3))[0, :5]
    np.testing.assert_array_equal(found, ends.float())


def test_the_next_step_is_read_while_one_computes(tmp_path, monkeypatch):
    folder, engine = written(tmp_path), choose("cpu")
    device_graph, plain = in_blocks(folder), in_blocks(folder)
    begun, found = [], []
    frontier, rows = ReadAhead.frontier, device_graph.read

    def noted(self, view, nodes):
        before = len(self._ahead)
        made = frontier(self, view, nodes)
        found.append((len(self._ahead) < before, threading.current_thread() is threading.main_thread()))
        return made

    def counted(nodes):
        begun.append(threading.current_thread().name)
        return rows(nodes)

    monkeypatch.setattr(ReadAhead, "frontier", noted)
    ahead = trained(replace(device_graph, read=counted), engine, epochs=6)
    # Of the first step nothing is read ahead; when the second one is, nobody may know yet what a step asks for.
    assert [was_read for was_read, _ in found] == [False] * 2 + [True] * 10
    assert all(main for _, main in found)
    assert len(begun) == 12
    assert begun.count("clnr-ahead_0") >= 8
    monkeypatch.setattr(ReadAhead, "begin", lambda self, views, nodes: None)
    alone = trained(plain, engine, epochs=6)
    assert torch.equal(ahead.losses, alone.losses)
    assert all(torch.equal(ahead.parameters[name], alone.parameters[name]) for name in alone.parameters)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_products_with_rows_in_a_file(tmp_path, relu, width):
    random = np.random.default_rng(0)
    h = random.normal(size=(500, width)).astype(np.float32)
    h.tofile(tmp_path / "rows.bin")
    dense = np.where(random.random((90, 500)) < 0.03, random.normal(size=(90, 500)), 0).astype(np.float32)
    dense[7], dense[8] = 0, 1
    sparse = sp.csr_array(dense)
    matrix = CSRArrays(sparse.indptr.astype(np.int64), sparse.indices.astype(np.int32), sparse.data)
    expected = dense.astype(np.float64) @ (np.maximum(h, 0) if relu else h)
    array = map_array(tmp_path / "rows.bin", "float32", h.shape)
    in_memory = matrix.multiply(torch.from_numpy(h), relu, None, None)
    product = matrix.multiply_array(array, relu)
    torch.testing.assert_close(product, in_memory, rtol=0, atol=0)
    np.testing.assert_allclose(product, expected, rtol=1e-4, atol=1e-4)
    # As an engine does that copies the rows first.
    gathered = BlockEngine.stored_product(choose("cpu", "float32"), matrix, array)(relu)
    torch.testing.assert_close(gathered, in_memory)
