"""Vectors and scores as they were last frozen: of the built-in graph, of real graphs and of tables.

    CLNR_DATA=FOLDER python -m tests.frozen

freezes those of this version and prints how far each is from what it was. ``tests/test_frozen.py`` compares.

Everything is computed on one thread of the CPU in float32, and nothing that is kept depends on signs or
rotations. It was computed again with no instructions but SSE, with two threads, with features changed by a
millionth, and with torch 2.6. Products then differed by 0.0001, trained or not; by 0.004, at a tenth of the
learning rate, where what is trained is propagated, as by the default. That comes from biases of encoders
whose columns are standardised: their gradient is nothing but rounding, which Adam takes for a gradient. They
drop out where rows are centred, but not where they are propagated first, nor of cosines: the link AUC of CLNR
differed by 0.015. An epoch more changes products by 0.02 to 0.8, a tenth more of the learning rate by 0.004
to 0.1.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import torch

import clnr
from clnr import METHODS, NodeEmbedder, cli, load, recipe_for
from clnr.embedding.planning import memory_bound, plan
from clnr.embedding.rows import passes as rows
from clnr.engine import cpu_engine
from clnr.experiments.learn import learn
from tests import frozen_tables
from tests.session_folders import run_module

KEPT = Path(__file__).with_name("frozen.json")
FACTS = "facts.json"

SMALL = {"epochs": 2, "hidden": 16, "dimension": 16, "sampled_nodes": 100}
ENGINE = {"device": "cpu", "precision": "float32", "threads": 1}
# What embeds: the arguments of an embedder, the same on the command line, and the method that they mean.
CHOSEN = {
    "default": ({}, "", "CLNR-mix"),
    "quick": ({"effort": "quick"}, "--effort quick", "SVD-mix"),
    "SVD-mix": ({"method": "SVD-mix", "hold_out": 0.0}, "--set method=SVD-mix --set hold_out=0", "SVD-mix"),
    **{name: ({"method": name}, f"--set method={name}", name) for name in ("CLNR", "GRACE", "CCA-SSG", "BGRL")},
    "Raw": ({"method": "Raw"}, "--set method=Raw", "Raw"),
}
TOLERANCES = {
    **dict.fromkeys(("products", "singular values", "size", "geometry", "link AUC"), 2e-3),
    "losses": 1e-3,
    "accuracy": 2e-2,
}
DATA = ("cora", "photo")
TABLES = {
    "people": "--edges e.csv --nodes n.csv --label group --directed --as about=text --as city=category",
    "shop": "--edges user,bought,item=bought.csv --edges user,knows,user=knows.csv "
    "--nodes user=users.csv --nodes item=items.csv --as user.about=text",
    "calls": "--edges call=calls.csv --edges text=texts.csv --until day=2019-10-01",
}
WAYS = {
    "memory": "",
    "files": "--memory=4GB",
    "workers": "--workers 2",
    "files-workers": "--memory=4GB --workers 2",
    # Unseen people, with the model of the others: added to its graph, or as a graph of their own.
    "added": "--edges later-e.csv --nodes later-n.csv",
    "alone": "--edges alone-e.csv --nodes later-n.csv --alone",
}


class Case(NamedTuple):
    """A graph, what embeds it, and the way: keys of the above."""

    graph: str
    chosen: str
    way: str = "memory"

    @property
    def name(self) -> str:
        return " ".join(self)

    @property
    def recipe(self) -> dict[str, Any]:
        # Workers share sampled steps alone.
        values = SMALL if self.way == "memory" else SMALL | {"moments": "sampled"}
        values = values | {"learning_rate": 1e-4} if self.chosen == "default" else values
        return {key: value for key, value in values.items() if key in METHODS[CHOSEN[self.chosen][2]].keys}

    @property
    def tolerances(self) -> dict[str, float]:
        """The largest differences that are allowed, several times those that were measured."""
        if self.chosen == "default":
            return TOLERANCES | {"products": 1e-2, "link AUC": 5e-3}
        return TOLERANCES | ({"link AUC": 3e-2} if "epochs" in self.recipe else {"products": 1e-3})


CASES = [
    *(Case("people", chosen) for chosen in CHOSEN),
    *(Case("people", chosen, "files") for chosen in ("default", "quick", "CLNR", "Raw")),
    Case("people", "CLNR", "workers"),
    Case("people", "default", "files-workers"),
    *(Case("people", chosen, way) for chosen in ("default", "quick") for way in ("added", "alone")),
    *(Case("shop", chosen) for chosen in ("default", "quick", "CLNR", "Raw")),
    *(Case("shop", chosen, "files") for chosen in ("default", "quick")),
    *(Case("calls", chosen) for chosen in ("default", "quick", "CLNR")),
    Case("calls", "quick", "files"),
    *(Case(graph, chosen) for graph in DATA for chosen in CHOSEN if chosen != "Raw"),
    *(Case(graph, chosen, "files") for graph in DATA for chosen in ("default", "quick", "CLNR")),
    Case("cora", "CLNR", "workers"),
    Case("cora", "default", "files-workers"),
]


# -- embedding ---------------------------------------------------------------------------------------------


class Embedded(NamedTuple):
    """What embeds each case, in a folder; ``data`` has the raw data sets."""

    folder: Path
    data: Path | None

    def embedder(self, case: Case) -> NodeEmbedder:
        """The fitted embedder of a case."""
        at = self.folder / case.graph
        if not at.exists():
            at.mkdir()
            getattr(frozen_tables, case.graph, lambda at: None)(at)
        if case.graph in DATA and case.way == "memory":
            arguments = CHOSEN[case.chosen][0] | ENGINE
            return NodeEmbedder(**arguments, recipe=case.recipe).fit(load(case.graph, self.data))
        out = at / "-".join(case)
        if not out.exists():
            words = [*self._words(case, at), "--no-report", "--out", str(out)]
            (by_two if "workers" in case.way else command)(at, words)
        return NodeEmbedder.load(out)

    def _words(self, case: Case, at: Path) -> list[str]:
        if case.way in ("added", "alone"):
            model = case._replace(way="memory")
            self.embedder(model)
            options = [f"--{name}={value}" for name, value in ENGINE.items()]
            return ["transform", "-".join(model), *WAYS[case.way].split(), *options]
        graph = TABLES.get(case.graph, "")
        if not graph or "files" in case.way:
            if not (at / "graph").exists():
                self._write_graph(case.graph, at)
            # Of thousands of held-out edges, what they reach takes long to compute.
            graph = "--graph graph" + " --set hold_out=0.005" * (case.graph == "photo")
        words = f"embed {graph} {CHOSEN[case.chosen][1]} {WAYS[case.way]}".split()
        return [*words, *(f"--set={key}={value}" for key, value in {**case.recipe, **ENGINE}.items())]

    def _write_graph(self, name: str, at: Path) -> None:
        if name in TABLES:
            command(at, f"ingest {TABLES[name]} --out graph".split())
            return
        graph = load(name, self.data)
        source, target, _ = graph.edges()
        # Without labels: a probe of vectors of few epochs takes minutes.
        edges = pa.table({"source": source, "target": target})
        clnr.ingest(edges, feature_matrix=graph.features, out=at / "graph")


def command(at: Path, words: list[str]) -> None:
    """The command line in this process and in a folder; with ``--memory`` from files, and in several blocks."""
    most = 50 if at.name in TABLES else 1500
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(rows, _MOST_NODES=most, BLOCK_STEP=1))
        stack.enter_context(mock.patch.object(memory_bound, "_LEAST_BLOCK_ROWS", most))
        stack.enter_context(mock.patch.object(plan, "fits_memory", lambda *given: given[3] is None))
        stack.enter_context(mock.patch.object(sys, "argv", ["clnr", *words]))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        said = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(contextlib.chdir(at))
        code = None
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        assert not code, said.getvalue()


def by_two(at: Path, words: list[str]) -> None:
    """The command line in two processes, forked from this one, which has computed nothing with torch yet."""
    children = []
    for rank in range(2):
        child = os.fork()
        if not child:
            # A worker ends where its standard input does.
            os.dup2(os.pipe()[0], 0)
            places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
            os.environ |= {name: str(value) for name, value in places.items()}
            os.environ["CLNR_RENDEZVOUS"] = f"{words[-1]}.meeting"
            try:
                command(at, words)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0], words


# -- what is kept ------------------------------------------------------------------------------------------


def facts(embedder: NodeEmbedder) -> dict[str, Any]:
    """What is kept of an embedding: lists of numbers, each with a tolerance of its own.

    Products are of some nodes' rows and of five sums that all rows are in; 1 is a row's mean square length.
    Rows are in the order of the nodes' ids, as text.
    """
    z = np.asarray(embedder.embedding_, np.float64)[np.argsort(np.asarray(embedder.ids_).astype(str))]
    # Where columns are standardised, a bias has no gradient but rounding, which Adam takes for one.
    z -= z.mean(0)
    size = np.sqrt(np.square(z).sum(1).mean())
    z /= size
    sums = (z[rest::5].sum(0) / len(z[rest::5]) ** 0.5 for rest in range(5))
    marks = np.stack([*z[:: len(z) // 8][:8], *sums])
    scores = [embedder.scores_, *embedder.baselines_.values()]
    lists = {
        "products": (marks @ marks.T)[np.triu_indices(len(marks))],
        "singular values": np.linalg.svd(z, compute_uv=False)[:8] / len(z) ** 0.5,
        "size": [np.log(size)],
        "losses": embedder.losses_,
        "link AUC": [each["link_auc"] for each in scores if "link_auc" in each],
        "accuracy": [each["strict_accuracy"] / 100 for each in scores if "strict_accuracy" in each],
        "geometry": [scores[0][name] for name in ("alignment", "uniformity") if name in scores[0]],
    }
    return {name: np.round(values, 4).tolist() for name, values in lists.items() if len(values)}


def of_toy(name: str) -> dict[str, Any]:
    """Products of a few nodes' rows, after three epochs of a method on the built-in graph with seed 7."""
    method = METHODS[name]
    small = {"epochs": 3, "hidden": 32, "dimension": 16, "structure": 16, "walk_columns": 16}
    small |= {"learning_rate": 1e-4} if method.readout else {}
    recipe = recipe_for(name, "toy").but(**{key: value for key, value in small.items() if key in method.keys})
    engine = cpu_engine(torch.float32)
    engine.threads = 1
    z = learn(method, load("toy"), 7, recipe, engine).z.double()
    z -= z.mean(0)
    products = z[::480] @ z[::480].T / z.square().sum(1).mean()
    return {"products": products[tuple(torch.triu_indices(*products.shape))].numpy().round(4).tolist()}


def differences(old: dict[str, Any], new: dict[str, Any]) -> dict[str, float]:
    """The largest difference in each list; infinite where one has other lists, or longer ones."""
    found = {}
    for name in {**old, **new}:
        before, now = (np.array(each.get(name, [])) for each in (old, new))
        found[name] = float(np.abs(before - now).max()) if before.shape == now.shape else np.inf
    return found


# -- freezing ----------------------------------------------------------------------------------------------


def current(folder: Path, data: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """All that can be frozen, by name; real graphs only with their data."""
    embedded = Embedded(folder, data)
    run_module("tests.frozen", folder)
    yield from json.loads((folder / FACTS).read_text()).items()
    yield from ((f"toy {name}", of_toy(name)) for name in METHODS)
    for case in CASES:
        if "workers" not in case.way and (data or case.graph in TABLES):
            yield case.name, facts(embedded.embedder(case))


def freeze_workers(folder: Path, data: Path | None) -> None:
    """Write the facts of all that two workers embed, from a process of its own."""
    embedded = Embedded(folder, data)
    cases = [case for case in CASES if "workers" in case.way and (data or case.graph in TABLES)]
    (folder / FACTS).write_text(json.dumps({case.name: facts(embedded.embedder(case)) for case in cases}))


def main() -> None:
    data = Path(os.environ["CLNR_DATA"]).absolute() if os.environ.get("CLNR_DATA") else None
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        freeze_workers(Path(sys.argv[1]), data)
        return
    old = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    new: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CLNR_HOME"] = str(Path(folder) / "home")
        for name, found in current(Path(folder), data):
            new[name] = found
            differs = differences(old[name], found) if name in old else {}
            told = ", ".join(f"{part} {value:.4f}" for part, value in differs.items() if value)
            print(f"{name}: {told or 'the same' if differs else 'new'}", flush=True)
    names = {f"toy {name}" for name in METHODS} | {case.name for case in CASES}
    for name in old.keys() - names:
        print(f"{name}: no more")
    lines = [f'"{name}": {json.dumps(each)}' for name, each in sorted((old | new).items()) if name in names]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
