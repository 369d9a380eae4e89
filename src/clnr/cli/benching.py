"""Commands that measure: bench."""

from __future__ import annotations

import json
from typing import Annotated

import torch
import typer

from clnr import machine, report
from clnr.bench import growing
from clnr.cli.app import Json, app, out
from clnr.cli.running import Device, Precision, Quiet
from clnr.engine import choose
from clnr.errors import RecipeError
from clnr.session import progress_bar

_EPOCHS = {"cpu": 5, "cuda": 50}


@app.command()
def bench(
    seconds: Annotated[float, typer.Option(help="About how long to go on to larger graphs.")] = 60,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure an epoch of CLNR on this machine against plain PyG, on graphs that grow."""
    if not seconds > 0:
        raise RecipeError(f"--seconds must be above 0, not {seconds:g}")
    engine = choose(device, precision)
    with progress_bar(quiet) as bar:
        found = []
        for row in growing(engine, seconds, _EPOCHS[engine.device.type]):
            bar.remark(f"{row.graph}, {row.nodes:,} nodes: {row.ours[1]:.2f} ms an epoch")
            found.append(row)
    if as_json:
        where = {"machine": machine.describe(engine.device), "precision": engine.precision, "versions": machine.versions()}
        print(json.dumps({**where, "graphs": [row.to_dict() for row in found]}))
        return
    out.print(f"{machine.describe(engine.device)}, {engine.precision}, torch {torch.__version__}", style="bold")
    out.print(report.measured(found))
    out.print("an epoch of CLNR: median (lowest-highest) of 3 turns; ratio: plain PyG's time over clnr's", style="dim")
