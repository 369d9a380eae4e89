"""What a read-out and inputs make of a graph in files is what they make of it in memory."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from benchmarks._graph_folders import write_graph

from clnr import evaluation, methods
from clnr.embedding.defaults import choose_method
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning import memory_bound
from clnr.embedding.result.artifact_files import ArtifactFiles
from clnr.embedding.result.artifact_model import load_model
from clnr.embedding.rows import block_rows
from clnr.embedding.rows import passes as rows
from clnr.embedding.scoring.judges import Judge
from clnr.engine import choose
from clnr.errors import DataError
from clnr.evaluation import hold_out
from clnr.experiments.learn import learn
from clnr.graph import Graph, csr
from clnr.graph.csr import draw_neighbours, edge_keys, median_weight
from clnr.graph.folder import open_graph
from clnr.nn import edge_blocks, inputs, readout_blocks, whole_rows
from tests.embedding.jobs import embed_folder, fit, planned
from tests.embedding.test_from_files import vectors
from tests.embedding.test_passes import without_edges

NODES = 300
RECIPE = {"dimension": 16, "hidden": 12, "epochs": 3, "sampled_nodes": 64, "moments": "sampled", "walk_columns": 10}
SHORT = (1, 3)


def a_graph(features: str, **options) -> Graph:
    random = np.random.default_rng(2)
    source, target = random.integers(0, NODES - 4, (2, 1000))
    target[:150] = 7
    x = random.normal(size=(NODES, 9)).astype(np.float32)
    if features == "bag":
        x = sp.csr_array((random.random((NODES, 40)) < 0.1).astype(np.float32))
    if options.pop("weighted", False):
        options["weight"] = random.integers(1, 4, 1000).astype(np.float32)
    return Graph.from_edges(source, target, x, ids=[f"n{i}" for i in range(NODES)], **options)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs")
    made = {"numbers": a_graph("numbers", weighted=True), "bag": a_graph("bag", undirected=True)}
    return {name: write_graph(graph, path / name) for name, graph in made.items()}


@pytest.fixture(autouse=True)
def short_walks(small_blocks, monkeypatch):
    for module in (rows, memory_bound, inputs, edge_blocks, whole_rows, block_rows):
        monkeypatch.setattr(module, "STEPS", SHORT)


def settings(method="CLNR-mix", hold_out=0.0, changes=(), **more):
    chosen = methods.find(method)
    recipe = {key: value for key, value in {**RECIPE, "structure": 0, **dict(changes)}.items() if key in chosen.keys}
    return Settings(chosen, choose("cpu", "float32"), recipe=recipe, hold_out=hold_out, evaluate=False, baselines=False, **more)


@pytest.mark.parametrize(
    ("name", "method", "changes"),
    [
        ("numbers", "CLNR-mix", {}),
        ("numbers", "CLNR-mix", {"structure": 6, "feature_weights": "none"}),
        ("bag", "CLNR-mix", {"hop_rows": "unit", "walk_columns": 7}),
        ("bag", "CLNR-tuned", {"layers": 2, "hops": 1}),
        ("numbers", "CLNR", {"structure": 6}),
        ("bag", "SVD-mix", {}),
        ("numbers", "SVD-both", {"reduced": 4}),
        ("bag", "SVD", {}),
    ],
    ids=str,
)
def test_from_files_as_in_memory(folders, tmp_path, name, method, changes):
    chosen = settings(method, changes=changes)
    found = embed_folder(folders[name], tmp_path / "out", chosen)
    recipe = planned(folders[name], chosen).recipe
    whole = learn(chosen.method, folders[name].in_memory(), 0, recipe, chosen.engine)
    assert len(found.z.paths) > 2
    np.testing.assert_allclose(vectors(tmp_path / "out")[1], whole.z.numpy(), rtol=1e-3, atol=2e-3)
    model = load_model(ArtifactFiles.open(tmp_path / "out"))
    assert model.parameters.keys() == whole.fitted.parameters.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("nodes", [NODES, 200])
@pytest.mark.parametrize(
    ("name", "method", "changes"),
    [
        ("bag", "CLNR-mix", {"structure": 6}),
        ("bag", "SVD-mix", {"reduced": 4}),
        ("numbers", "SVD-both", {"dimension": 4, "reduced": 4}),
        ("bag", "SVD-hops", {}),
    ],
    ids=str,
)
def test_many_features_from_files_as_in_memory(folders, tmp_path, monkeypatch, name, method, changes, nodes):
    sizes = {"MOST_INNER_PRODUCTS": 5, "FITTED_NODES": nodes, "ITERATED_NODES": 150, "ITERATED_NEIGHBORS": 3}
    for each, size in sizes.items():
        monkeypatch.setattr(readout_blocks, each, size)
    chosen = settings(method, changes=changes)
    found = embed_folder(folders[name], tmp_path / "out", chosen)
    whole = learn(chosen.method, folders[name].in_memory(), 0, found.model.recipe, chosen.engine)
    for place, value in whole.fitted.parameters.items():
        if place.endswith("directions"):
            torch.testing.assert_close(found.model.parameters[place], value, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(vectors(tmp_path / "out")[1], whole.z.numpy(), rtol=1e-3, atol=2e-3)


def test_edges_are_held_out_of_the_read_out_too(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(csr, "_SAMPLED_NEIGHBORS", NODES)
    folder, chosen = folders["numbers"], settings(hold_out=0.1, changes={"structure": 6})
    found = embed_folder(folder, tmp_path / "out", chosen)
    whole, links = folder.in_memory(), hold_out(folder, 0.1, 0)
    seen = without_edges(whole, links[0])
    device_graph = chosen.engine.to_device(seen.without_labels(), median_weight(folder.incoming.weight))
    trained = learn(chosen.method, seen, 0, planned(folder, chosen).recipe, chosen.engine, device_graph=device_graph)
    for name, value in trained.fitted.parameters.items():
        if name.endswith(("weight", "bias")):
            torch.testing.assert_close(found.model.parameters[name], value, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(vectors(tmp_path / "out")[1], found.model.embed(whole, chosen.engine), rtol=1e-3, atol=2e-3)
    cosines = evaluation.link_cosines(torch.nn.functional.normalize(trained.z), links)
    scored = evaluation.score_cosines(cosines)
    assert found.scores["link_auc"] == pytest.approx(scored["auc"], abs=1e-3)


@pytest.mark.parametrize("name", ["numbers", "bag"])
def test_neighbours_are_drawn_from_files_as_in_memory(folders, monkeypatch, name):
    monkeypatch.setattr(csr, "_SAMPLED_NEIGHBORS", NODES)
    folder, nodes = folders[name], np.random.default_rng(0).permutation(NODES)
    pairs = np.array([[0, 7, 8], [7, 9, 20]])
    keys = edge_keys(pairs, NODES)
    graph = without_edges(folder.in_memory(), pairs)
    for most in (4, NODES):
        for found, right in zip(
            folder.draw_neighbours(nodes, most, keys),
            draw_neighbours([graph.incoming, graph.outgoing], nodes, most),
            strict=True,
        ):
            np.testing.assert_array_equal(found, right)


def test_damaged_edges_are_named_when_neighbours_are_drawn(folders, tmp_path):
    path = shutil.copytree(folders["numbers"].stored.path, tmp_path / "graph")
    columns = np.fromfile(path / "outgoing.indices.bin", "<i4")
    columns[columns == 7] = NODES
    columns.tofile(path / "outgoing.indices.bin")
    with pytest.raises(DataError, match=r"outgoing\.indices\.bin: it is damaged"):
        open_graph(path).draw_neighbours(np.arange(NODES), 5)


@pytest.mark.parametrize("name", ["numbers", "bag"])
def test_a_read_out_is_fitted_to_the_same_sample_as_in_memory(folders, tmp_path, monkeypatch, name):
    monkeypatch.setattr(readout_blocks, "FITTED_NODES", 200)
    graph, chosen = folders[name].in_memory(), settings(changes={"reduced": 16})
    found = embed_folder(folders[name], tmp_path / "out", chosen)
    whole = learn(chosen.method, graph, 0, found.model.recipe, chosen.engine)
    places = "readout.block.1.directions", "readout.block.2.directions"
    for place in places:
        torch.testing.assert_close(found.model.parameters[place], whole.fitted.parameters[place], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(vectors(tmp_path / "out")[1], whole.z.numpy(), rtol=1e-3, atol=2e-3)
    # Another sample gives other directions.
    monkeypatch.setattr(readout_blocks, "FITTED_NODES", NODES)
    other = learn(chosen.method, graph, 0, found.model.recipe, chosen.engine).fitted.parameters
    for place in places:
        assert not torch.allclose(found.model.parameters[place], other[place], atol=1e-2)


@pytest.mark.full
@pytest.mark.usefixtures("small_blocks")
def test_labels_choose_the_read_out_from_files_as_in_memory(tmp_path, monkeypatch):
    """The same outcome of the same choices, and vectors of the one that is taken; a run that goes on has it, too."""
    seen: dict[str, list[np.ndarray]] = {}
    graph = dataclasses.replace(a_graph("dense"), labels=np.random.default_rng(3).integers(0, 2, NODES))
    place = "memory"

    def best(judge, usual, others):
        if 4 in others:
            seen[place] = [usual, *others.values()]
        return 4 if 4 in others else None

    monkeypatch.setattr(Judge, "best", best)
    asked = {"engine": choose("cpu"), "recipe": RECIPE, "hold_out": 0.0, "seed": 5} | choose_method(None, purpose="labels")
    ours = fit(graph, Settings(**asked))
    place = "files"
    folder = write_graph(graph, tmp_path / "graph")
    theirs = embed_folder(folder, tmp_path / "out", Settings(**asked))
    assert ours.model.recipe.mix == theirs.model.recipe.mix == "neighbors+walks"
    for one, other in zip(seen["memory"], seen["files"], strict=True):
        # Of some 60 nodes, hardly one is so near the boundary that rounding decides.
        assert (one != other).mean() < 0.05
    one, other = ours.z, vectors(tmp_path / "out")[1]
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=0.02 * np.abs(one @ one.T).max())
    assert any(line.startswith("labels choose mix=neighbors+walks: ") for line in theirs.warnings)
    fixed = asked | {"recipe": RECIPE | {"mix": "own"}}
    assert embed_folder(folder, tmp_path / "fixed", Settings(**fixed)).model.recipe.mix == "own"
    again = Settings(**asked, resume=True)
    assert embed_folder(folder, tmp_path / "out", again) is None
