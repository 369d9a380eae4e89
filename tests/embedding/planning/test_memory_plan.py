from __future__ import annotations

import dataclasses
import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from clnr.embedding.fit_settings import Settings
from clnr.embedding.graph_sources import as_table_graph
from clnr.embedding.planning import memory_plan
from clnr.embedding.planning.graph_facts import facts_in_words, graph_counts, table_warnings
from clnr.embedding.planning.memory_plan import plan, size_of
from clnr.engine import cpu_engine
from clnr.errors import OutOfMemory
from clnr.experiments.cost import ModelWork, Size, Work, training
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.methods import CLNR, CLNR_MIX, METHODS, QUICK_BASELINES
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe
from clnr.nn.readout import Readout
from clnr.support.machine import memory
from clnr.tables import read_tables
from tests.command_line import entry_point
from tests.conftest import tiny

pytestmark = pytest.mark.usefixtures("options")


def planned(graph, method=CLNR, recipe=None, **settings):
    return plan(as_table_graph(graph), Settings(method, cpu_engine(), recipe=recipe, **settings))[1]


def test_facts_are_counted():
    graph = Graph.from_edges([0, 1, 3], [1, 2, 3], np.eye(6), undirected=True, labels=[0, 1, 0, -1, -1, -1])
    counts = graph_counts(graph)
    facts = facts_in_words(counts)
    assert (facts["nodes"], facts["edges"], facts["nodes without edges"]) == ("6", "3 undirected", "2")
    assert facts["components"] == "4, the largest of 3 nodes"
    assert facts["classes"] == "2, of 3 nodes"
    assert (counts["nodes"], counts["edges"], counts["components"], counts["labelled_nodes"]) == (6, 3, 4, 3)
    assert all(type(value) in (int, float, bool) for value in counts.values())
    weighted = facts_in_words(graph_counts(Graph.from_edges([0, 1], [1, 2], np.eye(3), weight=[1.0, 2.0])))
    assert weighted["edges"] == "2 directed, weighted (1 at the median)"
    assert facts_in_words(graph_counts(Graph.from_edges([], [], np.zeros((0, 3)))))["nodes"] == "0"


@pytest.mark.parametrize(("nodes", "classes", "told"), [(24, 5, True), (25, 5, False), (19, 19, False)])
def test_labels_that_are_hardly_classes_are_told(nodes, classes, told):
    graph = Graph.from_edges([0], [1], np.eye(nodes), labels=np.arange(nodes) % classes)
    said = [f"labels: {nodes} nodes in {classes} classes, few of each; are these classes?"]
    assert table_warnings(as_table_graph(graph)) == (said if told else [])


def test_what_is_odd_in_tables_is_said_with_what_is_done(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\na,b\na,b\nb,b\nc,ghost\n")
    (tmp_path / "n.csv").write_text("id,age,same\na,1,x\nb,2,x\nc,3,x\nd,4,x\n")
    made = planned(read_tables(tmp_path / "e.csv", tmp_path / "n.csv"))
    for part in (
        "'ghost'",
        "1 edge from a node to itself",
        "1 row repeating an edge",
        "2 nodes have no edges: their vectors come from their features alone",
    ):
        assert part in "\n".join(made.warnings)
    assert "nodes 'age': feature, number" in made.columns[3]
    assert all(f"- {line}" in made.lines for line in (*made.columns, *made.warnings))
    assert made.to_dict()["columns"] == list(made.columns)


def test_every_probe_takes_its_time():
    """That of raw features, which has as many columns, and one for each baseline, as wide as the embedding."""
    graph = tiny(1000)
    judged, unjudged = (planned(graph, recipe=Recipe(), evaluate=each).modelled for each in (True, False))
    probe = judged["score"] - unjudged["score"]
    assert probe > 0
    probes = len(QUICK_BASELINES) + graph.num_features / Recipe().dimension
    assert judged["baselines"] - unjudged["baselines"] == pytest.approx(probes * probe)
    many = dataclasses.replace(graph, labels=np.arange(1000) % (10 * graph.num_classes))
    assert planned(many, recipe=Recipe()).modelled["score"] - unjudged["score"] == pytest.approx(10 * probe)


def test_only_what_is_asked_for_takes_time():
    graph = tiny(1000)
    all_stages = planned(graph, CLNR_MIX)
    assert list(all_stages.modelled) == ["prepare", "train", "fit the read-out", "embed", "score", "baselines", "write"]
    untrained = planned(graph, METHODS["SVD-mix"], baselines=False).modelled
    assert not {"train", "baselines"} & untrained.keys()
    table_graph, settings = as_table_graph(graph), Settings(CLNR_MIX, cpu_engine())
    drawn = plan(table_graph, settings, layout="fast")[1]
    assert drawn.seconds() - drawn.seconds("draw") == pytest.approx(all_stages.seconds())
    assert drawn.to_dict()["stage_seconds"] == drawn.estimate
    assert sum(drawn.estimate.values()) == drawn.to_dict()["seconds"] == drawn.seconds()


def test_an_hour_and_five_seconds_are_told_apart():
    short, long = (planned(few_columns(30_000), CLNR_MIX, changes={"epochs": epochs}) for epochs in (1, 100_000))
    assert short.seconds() < 60
    assert long.seconds() > 3600
    assert re.match(r"time: \d+ s, a rough estimate \(", short.lines[-1])
    assert re.match(r"time: [\d.]+ h, a rough estimate \(.*train [\d.]+ h, ", long.lines[-1])


def test_no_epochs_are_told_and_a_method_without_training_is_not():
    said = [planned(tiny(), method, Recipe(epochs=0)).notes for method in (CLNR, METHODS["SVD"])]
    assert said == [("epochs=0: nothing is trained, and the encoder keeps its random initial weights",), ()]


def test_a_gpu_is_hinted_at_only_where_it_would_help():
    few, many = (planned(tiny(1000), recipe=Recipe(epochs=epochs, hidden=2048)) for epochs in (9, 10**6))
    assert few.notes == ()
    (hint,) = many.notes
    assert hint.startswith("a GPU would help: training would take about ")
    assert f"- {hint}" in many.lines


def test_what_will_not_fit_is_refused_unless_the_graph_is_small():
    small, large = planned(tiny()), planned(few_columns(40_000))
    for made, free in ((small, None), (small, 2**28), (large, None), (large, int(large.memory) + 1)):
        dataclasses.replace(made, free_memory=free).check_memory()
    said = r"training needs about .*, of which Python and torch take 650 MB, and .* are free \(--ignore-memory-check"
    with pytest.raises(OutOfMemory, match=said):
        dataclasses.replace(large, free_memory=7 * 10**8).check_memory()


@pytest.mark.parametrize(("method", "share"), [(CLNR_MIX, 0.95), (CLNR_MIX, 0.6), (CLNR, 0.5), (METHODS["SVD-mix"], 0.8)])
def test_a_refusal_offers_what_fits_and_no_more_than_that(method, share):
    """By plans with each offer, and with each part of it left out."""
    graph, asked = few_columns(40_000), {key: 256 for key in ("structure", "walk_columns") if key in method.keys}
    made = planned(graph, method, changes=asked)
    free = int(made.sizes.program_bytes + share * (made.memory - made.sizes.program_bytes))
    with pytest.raises(OutOfMemory) as refused:
        dataclasses.replace(made, free_memory=free).check_memory()
    offer = str(refused.value).partition("this would do: ")[2]
    changes = {key: int(value) for key, value in (words.split("=") for words in offer.split()[1::2])}
    assert changes
    assert planned(graph, method, changes=asked | changes).memory <= free
    for key in changes if len(changes) > 1 else ():
        rest = {name: value for name, value in changes.items() if name != key}
        assert planned(graph, method, changes=asked | rest).memory > free


def test_where_nothing_would_fit_a_graph_folder_is_offered():
    made = planned(few_columns(40_000))
    with pytest.raises(OutOfMemory, match=r"are free .*; clnr ingest writes tables as a graph folder, and clnr embed --graph"):
        dataclasses.replace(made, free_memory=10**8).check_memory()


def test_the_command_that_a_refusal_prints_works(monkeypatch, capsys, tmp_path):
    """As printed: with other options of the same keys, and with fewer workers."""
    clnr = entry_point(monkeypatch, capsys)
    monkeypatch.setattr(memory_plan, "SMALL_BYTES", 0)
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{i},{(i * 7 + 1) % 2000}\n" for i in range(2000)))
    words = ["embed", "--edges", str(tmp_path / "e.csv"), "--out", str(tmp_path / "o"), "--method", "CLNR", "--device", "cpu"]
    words += ["--dimension=512", "--set", "hidden=512", "--epochs", "1", "--no-report", "--no-baselines", "-q"]
    monkeypatch.setattr(memory, "free_memory", lambda device: 10**12)
    full, least = (json.loads(clnr(*words, *more, "--dry-run", "--json").out)["memory_bytes"] for more in ([], LEAST))
    monkeypatch.setattr(memory, "free_memory", lambda device: int(full + 3 * least) // 4)
    refused = clnr(*words)
    assert (refused.code, refused.out) == (2, "")
    line, command = refused.err.splitlines()
    assert line.endswith("; run:")
    program, *again = shlex.split(command)
    assert (program, again[: len(words)] == words) == ("clnr", False)
    assert clnr(*again).code == 0


# The value of a short form is replaced, and --set goes to the end.
LEAST = ["--dimension=64", "--set", "hidden=64"]


# -- the costs that it adds up ----------------------------------------------------------------------------------------------


def test_more_of_anything_takes_more():
    base = Size(10_000, 100_000, 100, 4e6)
    few = training(CLNR, Recipe(), base, cpu_engine())
    wide = Recipe(hidden=2048, dimension=2048)
    for size, recipe in ((base._replace(nodes=10**6), Recipe()), (base._replace(edges=10**7), Recipe()), (base, wide)):
        more = training(CLNR, recipe, size, cpu_engine())
        assert more.seconds > few.seconds
        assert more.memory > few.memory


def work(method, size, **changes):
    recipe = Recipe().but(**changes)
    return ModelWork(METHODS[method].build(recipe), recipe, size)


def test_work_is_counted_in_edges_columns_and_passes():
    size = Size(1000, 7000, 30, 4 * 30_000)
    assert work("Cleora", size, dimension=16, walk_steps=5).inputs().gathered == 5 * 7000 * 16
    assert work("FastRP", size, dimension=16, power=3).inputs().gathered == 3 * 7000 * 16
    assert work("CLNR", size).inputs() == Work()
    # The same walks, for the input and the read-out.
    mixed = work("SVD-mix", size, structure=64, walk_columns=64)
    assert mixed.inputs().gathered == 16 * 7000 * 64
    assert mixed.walks() == Work()
    assert work("SVD-mix", size, structure=64, walk_columns=32).walks().gathered == 16 * 7000 * 32
    # A layer of hidden and one of dimension columns, propagated twice more.
    hops = work("CLNR-hops", size, hidden=20, dimension=10, layers=2, hops=2)
    assert hops.embed().gathered == 7000 * (20 + 10 + 2 * 10)
    assert work("SVD", size).fit_readout().gathered == 0
    # All features twice, to find their directions; and then as many directions as there are features.
    assert work("SVD-propagated", size).fit_readout().gathered == 2 * 7000 * 30 + 2 * 7000 * 30


def test_work_grows_as_the_graph():
    """Twice the edges are gathered twice, and twice the nodes multiplied twice, but for what a sample of them decides."""
    size = Size(10**6, 10**7, 30, 4 * 30 * 10**6)
    for method in ("CLNR-mix", "SVD-mix", "SVD-both", "Cleora", "Spectral"):
        one, edges, nodes = (
            work(method, each).all(2)
            for each in (size, size._replace(edges=2 * 10**7), size._replace(nodes=2 * 10**6, bytes=8 * 30 * 10**6))
        )
        assert edges == Work(2 * one.gathered, one.multiplied)
        assert nodes.gathered == one.gathered
        assert 1.5 * one.multiplied < nodes.multiplied <= 2 * one.multiplied


def test_threads_share_the_work_of_a_cpu_and_a_gpu_has_its_own_rate():
    some = Work(1e12, 1e12)
    assert some.seconds("cpu", 4) == pytest.approx(some.seconds("cpu", 1) / 4)
    assert some.seconds("cuda", 1) == some.seconds("cuda", 16) < some.seconds("cpu", 16)


def few_columns(nodes: int) -> Graph:
    random = np.random.default_rng(0)
    source, target = random.integers(0, nodes, (2, 10 * nodes))
    return Graph.from_edges(source, target, random.normal(size=(nodes, 3)).astype(np.float32), undirected=True)


WIDE = {"hidden": 256, "dimension": 128, "structure": 256, "epochs": 1}


def test_the_plan_has_room_for_all_that_a_read_out_is_fitted_to(monkeypatch):
    """Its matrices, and the features with the structure beside them, on the host and on the device."""
    fitted_bytes, fit = [], Readout.fit_components

    def noted(self, sizes, matrices, *more):
        fitted_bytes.append(sum(matrix.nbytes for matrix in matrices))
        return fit(self, sizes, matrices, *more)

    monkeypatch.setattr(Readout, "fit_components", noted)
    graph, recipe = few_columns(1200), preset(CLNR_MIX, None).recipe.but(hidden=64, dimension=64, structure=64, epochs=1)
    learn(CLNR_MIX, graph, 0, recipe, cpu_engine())
    held = fitted_bytes[0] + 2 * 4 * graph.num_nodes * (3 + 3 * 64)
    nothing = training(CLNR_MIX, recipe, Size(0, 0, 3, 0), cpu_engine()).memory
    assert held < training(CLNR_MIX, recipe, size_of(graph), cpu_engine()).memory - nothing < 6 * held


def test_without_an_encoder_less_memory_is_planned():
    recipe, size = Recipe(**WIDE), Size(200_000, 4_000_000, 3, 2.4e6)
    quick, standard = (training(METHODS[name], recipe, size, cpu_engine()).memory for name in ("SVD-mix", "CLNR-mix"))
    assert quick < standard


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it does not tell the peak of memory")
@pytest.mark.parametrize("method", ["CLNR-mix", "SVD-mix"])
def test_the_plan_is_the_peak_of_memory(method):
    """In a process of its own: at least what it takes, but for 5 %, and not much more."""
    code = f"""
import resource, sys
from clnr import NodeEmbedder
from tests.embedding.planning.test_memory_plan import WIDE, few_columns
from clnr.methods import METHODS
changes = {{key: value for key, value in WIDE.items() if key in METHODS["{method}"].keys}}
embedder = NodeEmbedder("{method}", recipe=changes, device="cpu", precision="float32", threads=2)
graph = few_columns(40_000)
planned = embedder.plan(graph).memory
embedder.fit(graph)
print(planned / resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.95 < float(done.stdout) < 1.3


@pytest.mark.parametrize("name", ["CLNR", "BGRL", "DGI"])
def test_a_sampled_step_costs_the_same_on_any_graph_of_that_degree(name):
    small, large = Size(10**6, 10**7, 100, 0), Size(10**8, 10**9, 100, 0)
    whole, sampled, bounded = Recipe(), Recipe(moments="sampled"), Recipe(moments="sampled", max_neighbors=3)
    seconds = {recipe: training(METHODS[name], recipe, small, cpu_engine()).seconds for recipe in (whole, sampled, bounded)}
    assert seconds[bounded] < seconds[sampled] < seconds[whole] / 10
    assert training(METHODS[name], sampled, large, cpu_engine()).seconds == pytest.approx(seconds[sampled])
    assert training(METHODS[name], whole, large, cpu_engine()).seconds > 50 * seconds[whole]


@pytest.mark.parametrize(("name", "least"), [("GRACE-all", 90), ("GAE", 1), ("BGRL", 1)])
def test_only_a_contrast_of_all_pairs_grows_with_its_square(name, least):
    recipe = Recipe(sampled_nodes=0)
    few, many = (training(METHODS[name], recipe, Size(nodes, 0, 100, 0), cpu_engine()).seconds for nodes in (10**6, 10**7))
    assert least * few < many < 1.2 * max(least, 10) * few
