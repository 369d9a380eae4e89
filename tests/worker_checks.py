"""Groups of two and three workers, and one alone, that do the same things: forked from one process, which imports torch once.

    python -m tests.worker_checks FOLDER

writes FOLDER/SIZE-RANK.pt for each worker of each group. ``tests/engine/distributed/test_worker_group.py`` reads them.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import torch

from clnr.embedding import job
from clnr.embedding.fit_settings import Settings
from clnr.engine import View, cpu_engine
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.engine.distributed.worker_session import joined
from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.nn.objectives import StepContext
from clnr.support.processes.workers import ALONE
from clnr.training.loop import fit_all

SIZES = (2, 3)
EPOCHS = 8
SAMPLED = 37
METHOD_NAMES = (
    *("CLNR", "nCLNR", "rCLNR", "GCLNR", "GRACE", "GRACE-all", "GCA"),
    *("CCA-SSG", "BGRL", "DGI", "MVGRL", "MVGRL-plain"),
    *("CLNR-mix", "CLNR-hops", "CLNR-MLP", "CLNR-tuned"),
)
# Three train those that differ in what workers exchange: the objective, batch normalisation, the moments, early stopping.
OF_THREE = (
    *("CLNR", "nCLNR", "GRACE", "GRACE-all", "GCA", "CCA-SSG", "BGRL", "DGI", "MVGRL"),
    *("CLNR-mix", "CLNR-hops"),
)
RECIPE = Recipe(
    hidden=24, dimension=16, epochs=EPOCHS, sampled_nodes=SAMPLED, moments="sampled", structure=8, reduced=16, walk_columns=8
)


def graph():
    from tests.conftest import tiny

    return tiny(nodes=150, features=20, sparse=True)


def recipe_of(name: str) -> Recipe:
    more = {"GRACE-all": {"sampled_nodes": 0}, "GRACE": {"max_neighbors": 3}, "CLNR-hops": {"patience": 3}}
    more["CLNR-mix"] = {"edge_weight": "measured"}
    return RECIPE.but(**more.get(name, {}))


def trained(name: str, workers) -> dict[str, torch.Tensor]:
    recipe, engine = recipe_of(name), cpu_engine()
    model = METHODS[name].build(recipe)
    inputs, device_graph = model.fit_inputs(engine.to_device(graph()), engine)
    start = StepContext(engine, device_graph, 3, 0, recipe.epochs, workers=workers)
    (fitted,) = fit_all(model, recipe, [start])
    z = model.embed(inputs | fitted.parameters, engine, View(device_graph))
    return {"losses": fitted.losses, "z": z} | first_step(model, recipe, workers)


def first_step(model, recipe: Recipe, workers) -> dict[str, torch.Tensor]:
    """Loss and gradients of the first step in float64, where sums in another order differ by next to nothing."""
    engine = CompiledEngine(torch.float64)
    given = model.fit_inputs(cpu_engine().to_device(graph()), cpu_engine())[1].graph
    parameters = {name: value.double().requires_grad_() for name, value in model.init(given.num_features, 3).items()}
    loss = model.loss(parameters, StepContext(engine, engine.to_device(given), 3, 0, recipe.epochs, None, workers))
    gradients = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
    total, *gradients = workers.all_reduce(loss.detach(), *gradients)
    return {"first loss": total, "gradient": torch.cat([each.flatten() for each in gradients])}


def fitted(workers) -> dict[str, object]:
    """A graph trained on by all workers, and embedded by the first, as ``clnr embed --workers`` does."""
    recipe = recipe_of("CLNR-mix")
    settings = Settings(
        METHODS["CLNR-mix"], cpu_engine(), recipe=recipe, seed=3, hold_out=0.1, baselines=False, workers=workers
    )
    result = job.embed(lambda: graph(), settings)
    if result is None:
        return {}
    return {"z": torch.tensor(result.z), "parameters": result.model.parameters, "scores": result.scores}


def disagreement(workers) -> str:
    try:
        workers.check_same_on_all_ranks(lambda: {"seed": 1, "tables": "a" if workers.first else "b"})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "agreed"


def check(folder: Path, workers) -> None:
    found = {
        "fitted": fitted(workers),
        "trained": {name: trained(name, workers) for name in (OF_THREE if workers.size == 3 else METHOD_NAMES)},
        "agreement": disagreement(workers),
    }
    torch.save(found, folder / f"{workers.size}-{workers.rank}.pt")


def main(folder: Path) -> int:
    # First alone, so that all that is imported and compiled when it is first used is there for the others.
    check(folder, ALONE)
    children = []
    for size in SIZES:
        for rank in range(size):
            if child := os.fork():
                children.append(child)
                continue
            meeting = str(folder / f"meeting-{size}")
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "CLNR_RENDEZVOUS": meeting}
            try:
                with joined("cpu") as workers:
                    check(folder, workers)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    return max(os.waitpid(child, 0)[1] for child in children)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(Path(sys.argv[1])) != 0)
