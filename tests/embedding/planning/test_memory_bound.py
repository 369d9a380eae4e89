from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from clnr.embedding.graph_facts import counts_of, facts_in_words
from clnr.embedding.planning.memory_bound import needs_in_memory, size_of
from clnr.engine import cpu_engine
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.methods import CLNR, CLNR_MIX, METHODS
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe
from clnr.nn.readout import Readout
from clnr.training.step_work import Size

pytestmark = pytest.mark.usefixtures("options")


def test_facts_are_counted():
    graph = Graph.from_edges([0, 1, 3], [1, 2, 3], np.eye(6), undirected=True, labels=[0, 1, 0, -1, -1, -1])
    counts = counts_of(graph)
    facts = facts_in_words(counts)
    assert (facts["nodes"], facts["edges"], facts["nodes without edges"]) == ("6", "3 undirected", "2")
    assert facts["components"] == "4, the largest of 3 nodes"
    assert facts["classes"] == "2, of 3 nodes"
    assert (counts["nodes"], counts["edges"], counts["components"], counts["labelled_nodes"]) == (6, 3, 4, 3)
    assert all(type(value) in (int, float, bool) for value in counts.values())
    weighted = facts_in_words(counts_of(Graph.from_edges([0, 1], [1, 2], np.eye(3), weight=[1.0, 2.0])))
    assert weighted["edges"] == "2 directed, weighted (1 at the median)"
    assert facts_in_words(counts_of(Graph.from_edges([], [], np.zeros((0, 3)))))["nodes"] == "0"


# -- the bound --------------------------------------------------------------------------------------------------------------


def training_memory(method, recipe, size, engine):
    return needs_in_memory(method, recipe, size, engine).peak(size.nodes)


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
    nothing = training_memory(CLNR_MIX, recipe, Size(0, 0, 3, 0), cpu_engine())
    assert held < training_memory(CLNR_MIX, recipe, size_of(graph), cpu_engine()) - nothing < 6 * held


def test_more_of_anything_takes_more_memory():
    base = Size(10_000, 100_000, 100, 4e6)
    few = training_memory(CLNR, Recipe(), base, cpu_engine())
    for size in (base._replace(nodes=10**6), base._replace(edges=10**7)):
        assert training_memory(CLNR, Recipe(), size, cpu_engine()) > few
    assert training_memory(CLNR, Recipe(hidden=2048, dimension=2048), base, cpu_engine()) > few


def test_without_an_encoder_less_memory_is_planned():
    recipe, size = Recipe(**WIDE), Size(200_000, 4_000_000, 3, 2.4e6)
    quick, standard = (training_memory(METHODS[name], recipe, size, cpu_engine()) for name in ("SVD-mix", "CLNR-mix"))
    assert quick < standard


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it does not tell the peak of memory")
@pytest.mark.parametrize("method", ["CLNR-mix", "SVD-mix"])
def test_the_plan_is_the_peak_of_memory(method):
    """In a process of its own: at least what it takes, but for 5 %, and not much more."""
    code = f"""
import resource, sys
from clnr import NodeEmbedder
from tests.embedding.planning.test_memory_bound import WIDE, few_columns
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
