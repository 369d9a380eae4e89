"""Benchmarks: bench."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer

from clnr.cli.app import Device, Json, Precision, Quiet, app, out, print_stderr
from clnr.errors import RecipeError

_EPOCHS_BY_DEVICE = {"cpu": 5, "cuda": 50}


@app.command()
def bench(
    seconds: Annotated[float, typer.Option(help="Approximate time in seconds; the toy graph is always measured.")] = 60,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Time an epoch of CLNR on this machine against plain PyG, on graphs of growing size."""
    import torch

    from clnr.bench import growing
    from clnr.cli import console_tables
    from clnr.engine import choose
    from clnr.support.machine import environment
    from clnr.support.progress import progress_bar

    if not 0 < seconds < math.inf:
        raise RecipeError(f"--seconds must be a number above 0, not {seconds:g}")
    engine = choose(device, precision)
    rows = []
    stopped = False
    try:
        with progress_bar(quiet) as bar:
            for row in growing(engine, seconds, _EPOCHS_BY_DEVICE[engine.device.type]):
                bar.note(f"{row.graph}, {row.nodes:,} nodes: {row.ours[1]:.2f} ms an epoch")
                rows.append(row)
    except KeyboardInterrupt:
        stopped = True
        print_stderr(f"stopped after {len(rows)} graph{'' if len(rows) == 1 else 's'}")
    if as_json:
        where = {
            "machine": environment.describe(engine.device),
            "precision": engine.precision,
            "versions": environment.versions(),
        }
        print(json.dumps({**where, "graphs": [row.to_dict() for row in rows]}))
    elif rows:
        out.print(f"{environment.describe(engine.device)}, {engine.precision}, torch {torch.__version__}", style="bold")
        out.print(console_tables.measured(rows))
        out.print("an epoch of CLNR: median (lowest-highest) of 3 repeats; ratio: plain PyG's time over clnr's", style="dim")
        if engine.device.type == "cpu":
            out.print("memory is that of the process, which both share; benchmarks/epoch.py measures them apart", style="dim")
    if stopped:
        raise typer.Exit(130)
