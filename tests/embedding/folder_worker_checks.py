"""Workers on a graph folder that is trained from its files: forked from one process, which imports torch once.

    python -m tests.embedding.folder_worker_checks FOLDER

writes an output folder for each case, and FOLDER/told.json: what each worker of a case ended with.
``tests/embedding/test_folder_workers.py`` reads them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from clnr import methods
from clnr.embedding import embed, workspace
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning import memory_bound
from clnr.embedding.result.artifact_files import ArtifactFiles
from clnr.embedding.result.artifact_model import load_model
from clnr.embedding.rows import block_rows, vectors
from clnr.embedding.rows import passes as rows
from clnr.engine import cpu_engine
from clnr.engine.blocks import in_blocks
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.engine.distributed.worker_session import joined
from clnr.graph import Graph
from clnr.nn import edge_blocks, inputs, readout_blocks, whole_rows
from clnr.nn.objectives import StepContext
from clnr.support.processes.workers import ALONE
from clnr.tables import ingest
from clnr.training.checkpoint import Checkpoint
from tests.embedding.jobs import embed_folder
from tests.embedding.stops import calls

NODES = 200
EPOCHS = 20
METHODS = {"CLNR": {}, "GRACE": {"max_neighbors": 3}, "GCLNR": {"layers": 3}, "CLNR-mix": {"walk_columns": 16, "structure": 8}}
CHANGES = {"epochs": EPOCHS, "hidden": 16, "dimension": 8, "sampled_nodes": 37, "moments": "sampled"}
BLOCKS = 8  # Of a layer, about.


def make_graph(path: Path) -> Graph:
    random = np.random.default_rng(0)
    source, target = random.integers(0, NODES, (2, 800))
    nodes = {"id": np.arange(NODES), "x": random.normal(size=(NODES, 6)).tolist()}
    return ingest(pa.table({"source": source, "target": target}), pa.table(nodes), out=path)


def settings(method: str, workers, **more) -> Settings:
    recipe = {"structure": 0, **CHANGES, **METHODS[method]}
    return Settings(
        methods.find(method),
        cpu_engine(),
        recipe=recipe,
        workers=workers,
        **more,
    )


def kill_at(owner: Any, name: str, count: int, rank: int = 0) -> None:
    """Let this process be killed when it calls a method for this time."""
    method, calls = getattr(owner, name), []

    def counted(*arguments):
        calls.append(name)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*arguments)

    setattr(owner, name, counted)


def first_step(graph: Graph, chosen: Settings) -> dict[str, torch.Tensor]:
    """Loss and gradients of the first step in float64, where sums in another order differ by next to nothing."""
    engine, workers, recipe = CompiledEngine(torch.float64), chosen.workers, chosen.recipe_for(graph)[0]
    model = chosen.method.build(recipe)
    given = in_blocks(graph)
    parameters = {name: value.double().requires_grad_() for name, value in model.init(graph.num_features, 0).items()}
    loss = model.loss(parameters, StepContext(engine, given, 0, 0, recipe.epochs, None, workers))
    gradients = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
    total, *gradients = workers.all_reduce(loss.detach(), *gradients)
    return {"loss": total, "gradient": torch.cat([each.flatten() for each in gradients])}


class Cases:
    def __init__(self, folder: Path):
        self.folder, self.told = folder, {}
        self.graph = make_graph(folder / "graph")

    def one(self, name: str, method: str = "CLNR", **more) -> None:
        """One worker alone, in this process."""
        out = self.folder / name
        chosen = settings(method, ALONE, **more)
        embed_folder(self.graph, out, chosen)
        torch.save(first_step(self.graph, chosen), self.folder / f"{name}.pt")

    def several(
        self,
        name: str,
        size: int = 2,
        method: str = "CLNR",
        before=lambda rank: None,
        outs=None,
        **more,
    ):
        """Several workers, forked; if one is killed, the others are, too, as ``launch`` does."""
        children = {}
        for rank in range(size):
            if child := os.fork():
                children[child] = rank
                continue
            meeting = self.folder / f"meeting-{name}"
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "CLNR_RENDEZVOUS": str(meeting)}
            try:
                before(rank)
                out = self.folder / (outs[rank] if outs else name)
                with joined("cpu") as workers:
                    chosen = settings(method, workers, **more)
                    embed_folder(self.graph, out, chosen)
                    torch.save(first_step(self.graph, chosen), self.folder / f"{name}.pt")
                said = ""
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            (self.folder / f"told-{rank}").write_text(said)
            os._exit(0)
        told = {}
        while children:
            pid, status = os.waitpid(-1, 0)
            rank = children.pop(pid)
            told[rank] = "killed" if os.WIFSIGNALED(status) else (self.folder / f"told-{rank}").read_text()
            if told[rank] == "killed":
                for each in children:
                    os.kill(each, signal.SIGKILL)
        (self.folder / f"meeting-{name}").unlink(missing_ok=True)
        self.told.setdefault(name, []).append([told[rank] for rank in range(size)])

    def run(self) -> None:
        self.one("CLNR-1")
        # What is imported at the first use is there for the others.
        load_model(ArtifactFiles.open(self.folder / "CLNR-1"))
        for method in METHODS:
            if method != "CLNR":
                self.one(f"{method}-1", method)
            self.several(f"{method}-2", 2, method)
        self.embedding_killed()
        # In passes of walks and of the encoder's rows.
        for times, count in enumerate((30, 25)):
            killed = partial(kill_at, workspace._Writer, "write", count)
            self.several("read-out-killed", 2, "CLNR-mix", before=killed, resume=times > 0)
        self.several("read-out-killed", 2, "CLNR-mix", resume=True)
        workspace._LATEST_SECONDS = 0.3
        (self.folder / "elsewhere").mkdir()
        self.several("unseen", outs=("unseen", "elsewhere/unseen"))

    def embedding_killed(self) -> None:
        """Killed in the first pass, resumed by three and killed at the vectors, resumed by one."""
        self.several("embedding-killed", 2, before=partial(kill_at, workspace._Writer, "write", 3))
        self.several("embedding-killed", 3, before=partial(kill_at, vectors, "write_shard", 3), resume=True)
        train, embed.train = embed.train, None
        with calls("rows") as blocks:
            self.one("embedding-killed", resume=True)
        embed.train = train
        self.told["blocks after two kills"] = len(blocks)


def main(folder: Path) -> None:
    memory_bound._LEAST_BLOCK_ROWS = 1
    rows._MOST_NODES, rows.BLOCK_STEP = NODES // BLOCKS, 1
    # Features are more: workers share the directions that the first one finds.
    readout_blocks.MOST_INNER_PRODUCTS = 16
    Checkpoint.seconds = 0.0
    for module in (rows, memory_bound, inputs, edge_blocks, whole_rows, block_rows):
        module.STEPS = (1, 2)
    cases = Cases(folder)
    cases.run()
    (folder / "told.json").write_text(json.dumps(cases.told))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
