"""The public names with wrong arguments: each call works, or is a ClnrError of one line that names what was wrong."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import clnr
from clnr import CLNR, ClnrError, Graph, Method, NodeEmbedder, Recipe, Split, Summary
from tests.conftest import tiny
from tests.experiments.test_run_cache import made

WRONG = {
    **{repr(each): each for each in (None, 5, -1, 2**200, 1.5, float("nan"), float("inf"), True)},
    **{repr(each): each for each in ("x", "", "a\0b", b"x", (), [], {}, [None], ["x"], [[1, 2], [3]], [2**200], {"x": 5})},
    "object": object(),
    "lambda": lambda *arguments: None,
    "type": complex,
    "0-d": np.array(3),
    "3-d": np.zeros((2, 2, 2)),
    "objects": np.array([object(), None], dtype=object),
    "texts": np.array(["a", "b"]),
    "complex": np.array([[1j, 2]]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "records": np.zeros(3, dtype=[("a", int)]),
    "empty": np.zeros((0, 0)),
    "sparse": sp.eye_array(3),
    "tensor": torch.zeros(2, 3),
    "complex tensor": torch.zeros(40, dtype=torch.complex64),
    "sparse tensor": torch.eye(3).to_sparse(),
    "Path": Path("nowhere"),
    "Graph": tiny(),
    "Recipe": Recipe(),
    "Split": Split(np.arange(2), np.arange(2), np.arange(2)),
}

QUICK = Recipe(epochs=1, hidden=8, dimension=4, probe_steps=5)
GRAPH = tiny()
NETWORK = networkx.path_graph(5)
for node in NETWORK:
    NETWORK.nodes[node].update(x=[1.0, float(node)], label=node % 2)
ON_CPU = {"recipe": QUICK, "device": "cpu", "precision": "float32"}


@functools.cache
def fitted(graph: Graph | None = None) -> NodeEmbedder:
    return NodeEmbedder(recipe=QUICK, device="cpu", hold_out=0, graph=graph).fit(GRAPH)


FOLDERS = itertools.count()

# A call, and right values of its arguments.
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Graph.named": (GRAPH.named, {"name": "mine"}),
    "load": (clnr.load, {"name": "toy", "root": None, "fetch": None}),
    "run": (
        clnr.run,
        {"method": CLNR, "dataset": GRAPH, "seed": 0, **ON_CPU, "data_root": None, "progress": None},
    ),
    "runs": (
        lambda **arguments: list(clnr.runs(**arguments)),
        {"method": CLNR, "dataset": GRAPH, "seeds": [0], **ON_CPU, "progress": None, "parallel_seeds": 1},
    ),
    "recipe_for": (clnr.recipe_for, {"method": CLNR, "dataset": "cora"}),
    "Recipe": (Recipe, QUICK.to_dict()),
    "Recipe.of": (Recipe.of, {"values": {"epochs": 5}, "method": CLNR}),
    "Recipe.but": (QUICK.but, QUICK.to_dict()),
    "Recipe.of_view": (QUICK.of_view, {"index": 1}),
    "Recipe.of_method": (QUICK.of_method, {"method": CLNR}),
    "Method": (Method, {spec.name: getattr(CLNR, spec.name) for spec in dataclasses.fields(Method)}),
    "Method.but": (
        CLNR.but,
        {"name": "mine", "summary": "", "encoder": CLNR.encoder, "views": CLNR.views, "postprocess": (), "objective": None},
    ),
    "Method.build": (CLNR.build, {"recipe": QUICK}),
    "Summary.of": (Summary.of, {"runs": [made(0), made(1)]}),
    "Summary.mean": (Summary.of([made(0), made(1)]).mean, {"metric": "strict"}),
    "Summary.accuracy": (Summary.of([made(0), made(1)]).accuracy, {"protocol": "paper"}),
    "NodeEmbedder": (
        lambda **arguments: NodeEmbedder(recipe=QUICK, device="cpu", **arguments).fit(GRAPH),
        {"checkpoint": None, "resume": False, "evaluate": False, "verbose": False},
    ),
    "NodeEmbedder.save": (
        lambda **arguments: fitted().save(f"model-{next(FOLDERS)}", **arguments),
        {"force": False, "report": False},
    ),
    "NodeEmbedder.report": (
        lambda **arguments: fitted().report(**arguments),
        {"path": "report.html", "title": "mine", "name": None},
    ),
    "NodeEmbedder.fit": (
        lambda **arguments: NodeEmbedder(recipe=QUICK, device="cpu").fit(**arguments),
        {"X": GRAPH, "y": None},
    ),
    "NodeEmbedder.transform": (lambda **arguments: fitted().transform(**arguments), {"X": GRAPH}),
    "NodeEmbedder.similar": (lambda **arguments: fitted().similar(3, **arguments), {"k": 5, "unlinked": False}),
    "NodeEmbedder.load": (NodeEmbedder.load, {"folder": "nowhere", "device": "cpu", "precision": "float32"}),
}


# What they do beside reading arguments takes long, and others read theirs alike.
LONG_CALLS = ("run", "runs")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.full] * (name in LONG_CALLS)) for name in CALLS])
def test_a_wrong_argument_raises_one_line_or_works(name, tmp_path, monkeypatch):
    """Warnings are errors here: none that is not ours may come of what a user hands in."""
    monkeypatch.chdir(tmp_path)
    call, right = CALLS[name]
    raw = []
    for argument in right:
        for what, wrong in WRONG.items():
            try:
                call(**(right | {argument: wrong}))
            except ClnrError as error:
                if not 10 < len(str(error)) <= 1000 or "\n" in str(error):
                    raw.append(f"{argument}={what}: {error}")
            except Exception as error:
                raw.append(f"{argument}={what}: {type(error).__name__}: {error}")
    assert raw == []
