"""What a graph in files takes, before it is trained on: memory, disk, and what cannot work."""

from __future__ import annotations

import dataclasses

import pytest

from clnr import methods
from clnr.embedding.fit_settings import Settings
from clnr.embedding.job import embed_folder
from clnr.embedding.planning import file_plan
from clnr.embedding.planning.file_plan import fits_memory, plan
from clnr.embedding.stages.block_passes import Passes
from clnr.embedding.store.row_files import LayerFiles, SampleFiles, ShardFiles
from clnr.engine import choose
from clnr.errors import MethodError, OutOfMemory, RecipeError
from clnr.experiments import cost
from clnr.graph.graph_folder import GraphFolder
from clnr.methods.presets import preset
from clnr.support.humanize import parse_bytes
from clnr.support.machine import memory
from tests.embedding.stages.test_graph_in_files import MEMORY, NODES, random_folder, settings

pytestmark = pytest.mark.usefixtures("options")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return random_folder(tmp_path_factory.mktemp("graphs") / "graph")


def test_the_plan_tells_memory_and_disk(folder):
    _, planned = plan(folder, settings(), MEMORY)
    assert planned.sizes.disk == 2e7 + 4 * NODES * (8 + 8)
    assert 0 < planned.sizes.step_bytes <= 2 * (NODES * 6 * 4 + folder.num_edges * 4)
    assert "a step reads up to" in str(planned)


def test_a_small_graph_is_not_refused_for_what_python_and_torch_take(folder):
    """They take 750 MB for each worker, and the plan says so where that is more than may be used."""
    _, one = plan(folder, settings(), 1_000_000_000)
    _, two = plan(folder, settings(), 1_000_000_000, 2)
    assert all(7.5e8 < each.memory < 8e8 for each in (one, two))
    more = "more than the 1.0 GB that may be used: Python and torch alone take 750 MB in each process"
    assert [more in str(each) for each in (one, two)] == [False, True]


@pytest.mark.parametrize(("bound", "workers"), [(800_000_000, 1), (1_600_000_000, 2)])
def test_what_a_refusal_offers_would_do(folder, monkeypatch, bound, workers):
    monkeypatch.setattr(file_plan, "SMALL_BYTES", 0)
    large = {"sampled_nodes": 60, "hidden": 4096}
    chosen = settings(changes=large)
    with pytest.raises(OutOfMemory, match=r"of which Python and torch take 750 MB, and .* this would do: ") as refused:
        plan(folder, chosen, bound, workers)
    offers = str(refused.value).partition("this would do: ")[2].split(", or ")
    kinds = {words.split()[0] for words in offers}
    assert kinds == {"--memory", "--set", *(["--workers"] if workers > 1 else [])}
    for words in offers:
        option, value = words.split(maxsplit=1)
        if option == "--memory":
            plan(folder, chosen, parse_bytes(value.strip("'")), workers)
        elif option == "--workers":
            plan(folder, chosen, bound, int(value))
        else:
            changes = dict(each.split("=") for each in words.split()[1::2])
            smaller = settings(
                changes={"sampled_nodes": 60, "hidden": 4096} | {key: int(each) for key, each in changes.items()}
            )
            plan(folder, smaller, bound, workers)


def test_memory_follows_the_graph_and_not_what_is_free(folder, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 10**12)
    _, small = plan(folder, settings(), None)
    # What the process itself takes, and little more.
    assert small.memory < 1e9
    many = 50_000_000
    arrays = {name: info._replace(shape=(many * 6, *info.shape[1:])) for name, info in folder.arrays.items()}
    large = dataclasses.replace(folder, num_nodes=many, num_edges=6 * many, arrays=arrays)
    for bound in (4_000_000_000, 40_000_000_000):
        _, planned = plan(large, settings(changes={"structure": 256}), bound)
        assert bound / 2 < planned.memory <= bound


@pytest.mark.parametrize(
    ("method", "hold_out", "changes"),
    [
        ("CLNR", 0.0, {"structure": 16}),
        ("CLNR-mix", 0.1, {"structure": 0}),
        ("CLNR-mix", 0.1, {"structure": 16}),
        ("CLNR-mix", 0.0, {"structure": 16}),
        ("CLNR-mix", 0.0, {"structure": 128, "hops": 3}),
        ("CLNR-mix", 0.1, {"structure": 0, "layers": 3, "hops": 5}),
        ("CLNR-hops", 0.1, {}),
        ("SVD-mix", 0.0, {"structure": 16}),
        ("SVD-both", 0.1, {"dimension": 8}),
    ],
    ids=str,
)
def test_disk_and_passes_of_a_plan_are_those_of_the_work(folder, tmp_path, monkeypatch, method, hold_out, changes):
    """At most so much is there at a time, and not much less."""
    most, passes, make = 0, 0, Passes.make

    def noted(real):
        def write(*arguments):
            nonlocal most
            real(*arguments)
            kinds = (".bin", ".npy", ".parquet")
            most = max(most, sum(path.stat().st_size for path in tmp_path.rglob("*") if path.suffix in kinds))

        return write

    def counted(self, parts):
        nonlocal passes
        passes += any(part.reads_edges for part in parts)
        make(self, parts)

    for sink, name in ((LayerFiles, "write"), (ShardFiles, "write"), (SampleFiles, "keep")):
        monkeypatch.setattr(sink, name, noted(getattr(sink, name)))
    monkeypatch.setattr(Passes, "make", counted)
    chosen = settings(method, hold_out=hold_out, changes={"dimension": 64, "hidden": 64, "epochs": 1, **changes})
    _, planned = plan(folder, chosen, MEMORY)
    embed_folder(folder, tmp_path / "out", chosen, MEMORY)
    # Beside the model; a shard has a header, and ids beside the vectors. In a graph as small as this, the sample is all of it,
    # and some of its rows are made only when some of all nodes are gone.
    rows = planned.sizes.disk - 2e7
    assert 0.75 * rows < most <= rows + 10_000
    # Without a read-out, the encoder's layers are not counted.
    assert planned.sizes.columns.passes == passes - (chosen.recipe_for(folder)[0].layers if method == "CLNR" else 0)


def test_the_default_takes_sixteen_passes(folder):
    more = {"changes": {"hidden": 64, "dimension": 64}, "hold_out": 0.1}
    assert plan(folder, settings("CLNR-mix", **more), MEMORY)[1].sizes.columns.passes == 16


@pytest.mark.parametrize(
    ("method", "more", "said"),
    [
        ("CLNR-mix", {"changes": {"structure": 2000}}, "its read-out takes at most 4,096 features from files"),
        ("CLNR", {"changes": {"moments": "all"}}, "each step computes the rows of all nodes, unless moments=sampled"),
        ("CLNR", {"changes": {"sampled_nodes": 0}}, "each step computes the rows of all nodes"),
        ("Spectral", {}, "Spectral looks at all of the graph"),
        ("GCA", {}, "AdaptiveDropEdges looks at all of the graph"),
    ],
)
def test_what_needs_all_rows_is_refused_with_advice(folder, method, more, said):
    with pytest.raises(MethodError) as caught:
        plan(folder, settings(method, **more), MEMORY)
    assert said in str(caught.value)
    assert "--method CLNR with its defaults works" in str(caught.value)


def test_the_plan_of_several_workers_says_what_each_takes(folder, monkeypatch):
    monkeypatch.setattr(file_plan, "_LEAST_BLOCK_ROWS", 1)
    (recipe, one), (_, two) = (plan(folder, settings(), 2 * MEMORY, workers) for workers in (1, 2))
    assert two.memory <= MEMORY
    assert two.sizes.block_rows < one.sizes.block_rows
    assert two.sizes.step_bytes < one.sizes.step_bytes
    assert two.to_dict()["memory_bytes"] == 2 * two.to_dict()["worker_memory_bytes"]
    assert two.to_dict()["workers"] == 2
    assert two.sent_per_step == cost.sent(methods.CLNR, recipe, cost.Size(NODES, folder.num_edges, 6, 0), 2)
    assert "2 workers: each takes" in str(two)
    assert "workers" not in str(one)
    with pytest.raises(RecipeError, match="100 workers cannot share 64 nodes of a step; start at most 64"):
        plan(folder, settings(), MEMORY, 100)


def test_a_graph_fits_in_memory_if_every_worker_can_load_it(folder):
    needed = 700_000_000
    assert fits_memory(folder, settings(), None)
    assert not fits_memory(folder, settings(), 500_000_000)
    assert fits_memory(folder, settings(), needed)
    assert not fits_memory(folder, settings(), needed, 2)
    assert fits_memory(folder, settings(), 2 * needed, 2)


def test_recipes_of_folders_are_those_of_graphs(folder):
    graph = GraphFolder.open(folder.path)
    for chosen in (settings(), Settings(methods.CLNR_MIX, choose("cpu"))):
        assert chosen.recipe_for(graph)[0] == chosen.recipe_for(graph.graph())[0]
    assert preset(methods.CLNR, str(folder.path)) == preset(methods.CLNR, None)
