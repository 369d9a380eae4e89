"""Commands that train and evaluate: run, compare."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clnr.cli.app import OPTIMISTIC, app, choose_pair, out, print_json, print_stderr
from clnr.cli.options import Assign, DatasetName, Device, Json, MethodName, Precision, Quiet, Threads
from clnr.errors import ClnrError, RecipeError
from clnr.support.humanize import plural
from clnr.support.machine.devices import Asked

if TYPE_CHECKING:
    from clnr.experiments.results import Summary
    from clnr.methods import Method
    from clnr.methods.presets import Published
    from clnr.methods.recipe import Recipe

Seeds = Annotated[int, typer.Option(metavar="N", min=1, help="Number of runs, with seeds 0 to N-1.")]
DataRoot = Annotated[Path | None, typer.Option(help="Folder with raw data files, searched before the download cache.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Ignore the run cache and run again.")]


@app.command(name="run")
def run_command(
    method: MethodName = None,
    dataset: DatasetName = None,
    seeds: Seeds = 1,
    assign: Assign = None,
    rerun: Rerun = False,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    data_root: DataRoot = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a method on a data set and evaluate it.

    Without METHOD and --json, two baselines come first: raw features and an untrained encoder.
    """
    from clnr import methods
    from clnr.cli import console_tables
    from clnr.methods.recipe import parse

    chosen, name = choose_pair(method, dataset)
    recipe = _recipe(chosen, name, parse(assign or []))
    baselines = [methods.RAW, methods.UNTRAINED] if method is None and not as_json else []
    lineup = [(each, recipe) for each in (*baselines, chosen)]
    asked = Asked(device, precision, threads)
    rows = _all_runs(lineup, name, seeds, rerun, asked, data_root, quiet)
    if as_json:
        print_json(rows[-1][0].to_dict())
    else:
        _title(name, rows[-1][0])
        out.print(console_tables.summaries(rows))
        out.print(OPTIMISTIC, style="dim")


@app.command()
def compare(
    dataset: DatasetName = None,
    names: Annotated[
        str, typer.Option("--methods", help="Two or more, separated by commas; the first is tested against each of the others.")
    ] = "CLNR,GRACE,CCA-SSG",
    seeds: Seeds = 5,
    assign: Assign = None,
    rerun: Rerun = False,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    data_root: DataRoot = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on the same seeds and splits. Paired tests are of the first against each of the others."""
    from clnr import datasets, methods
    from clnr.cli import console_tables
    from clnr.methods.recipe import parse

    name = datasets.name_of(dataset or "toy")
    chosen = [methods.find(each) for each in names.replace(",", " ").split()]
    if len(chosen) < 2 or len({each.name for each in chosen}) < len(chosen):
        raise ClnrError(f"--methods needs two or more different methods, not '{names}'")
    changes = parse(assign or [])
    for key in changes:
        without = [each.name for each in chosen if key not in each.keys]
        if len(without) == len(chosen):
            raise RecipeError(f"{key} is not a hyper-parameter of {', '.join(without)}")
        if without and not quiet:
            print_stderr(f"{key} does not apply to {', '.join(without)}")
    applied = ({key: value for key, value in changes.items() if key in each.keys} for each in chosen)
    lineup = [(each, _recipe(each, name, values)) for each, values in zip(chosen, applied, strict=True)]
    asked = Asked(device, precision, threads)
    rows = _all_runs(lineup, name, seeds, rerun, asked, data_root, quiet)

    from clnr.experiments.comparison import Comparison

    compared = Comparison.of([summary for summary, _ in rows])
    if as_json:
        print_json(compared.to_dict())
    else:
        _title(name, rows[0][0])
        out.print(console_tables.comparison(compared, [published for _, published in rows]))
        out.print(OPTIMISTIC, style="dim")
        out.print(f"** {console_tables.test_note(compared)}", style="dim")


def _recipe(method: Method, dataset: str, changes: dict[str, Any]) -> Recipe:
    from clnr.methods.presets import preset
    from clnr.methods.recipe import check_used

    check_used(method, changes)
    recipe = preset(method, dataset).recipe.but(**changes)
    method.check(recipe)
    return recipe


def _title(name: str, summary: Summary) -> None:
    first = summary.runs[0]
    precision = "" if first.precision == "float32" else f", {first.precision}"
    out.print(f"{name}, {plural(len(summary.runs), 'seed')}, {first.machine}{precision}", style="bold")


def _all_runs(
    lineup: list[tuple[Method, Recipe]],
    dataset: str,
    seeds: int,
    rerun: bool,
    asked: Asked,
    data_root: Path | None,
    quiet: bool,
) -> list[tuple[Summary, Published | None]]:
    """The runs of each method of a line-up with its published result."""
    from clnr import datasets
    from clnr.datasets.download import download
    from clnr.engine import choose
    from clnr.experiments.run_cache import RunCache
    from clnr.experiments.runner import find_or_make
    from clnr.methods.presets import preset
    from clnr.support.progress import progress_bar

    engine, run_cache, rows = choose(*asked), RunCache(), []
    try:
        with progress_bar(quiet) as bar:
            graph = datasets.load(dataset, data_root, partial(download, progress=bar.fetched))
            run_cache.prepare()
            for method, recipe in lineup:
                summary = find_or_make(method, graph, recipe, seeds, engine, run_cache, rerun, bar)
                shipped = preset(method, dataset)
                # A published result says nothing about a changed recipe.
                rows.append((summary, shipped.published if shipped.recipe == recipe else None))
    except KeyboardInterrupt:
        print_stderr("stopped; finished runs are in the run cache: run the same command without --rerun to resume")
        raise typer.Exit(130) from None
    return rows
