"""The command line: a thin leaf on the library."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from clnr import data, machine, methods, report
from clnr.comparison import Comparison
from clnr.data.files import download
from clnr.engine import DEVICES, choose
from clnr.errors import ClnrError, RecipeError, RecordError, UnknownName
from clnr.methods import Method
from clnr.recipe import Published, Recipe, parse
from clnr.record import Record
from clnr.run import Summary, shelf, without_nan
from clnr.search import Trial, grid, try_all
from clnr.session import Session, progress_bar
from clnr.version import __version__

app = typer.Typer(
    help="Embeddings of the nodes of a graph, without labels.",
    epilog="Start with: clnr run. Then: clnr run CLNR cora --seeds 20",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(width=None if sys.stdout and sys.stdout.isatty() else 160, highlight=False, markup=False)

_OPTIMISTIC = "* the paper's rule lets the test set choose the probe's step; strict reads the test set once"
_KEPT = "stopped; the runs that had ended are in the record, and the same command without --again goes on from there"
_BASELINES = (methods.RAW, methods.UNTRAINED)

Seeds = Annotated[int, typer.Option(help="How many runs, with seeds 0, 1, 2 ...")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
DataRoot = Annotated[Path | None, typer.Option(help="Folder with raw data, looked into first.")]
Assign = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe's number.")]
Again = Annotated[bool, typer.Option("--again", help="Run even what the record holds already.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no remarks.")]
MethodName = Annotated[str | None, typer.Argument(metavar="METHOD", help="See: clnr ls methods.")]
DatasetName = Annotated[str | None, typer.Argument(metavar="DATASET", help="See: clnr ls datasets.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]


def _version(asked: bool) -> None:
    if asked:
        print(f"clnr {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Embeddings of the nodes of a graph, without labels."""


@app.command(name="run")
def run_command(
    method: MethodName = None,
    dataset: DatasetName = None,
    seeds: Seeds = 1,
    device: Device = "auto",
    data_root: DataRoot = None,
    assign: Assign = None,
    again: Again = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train METHOD on DATASET (CLNR on the embedded graph) and evaluate it.

    Without METHOD, raw features and the untrained encoder are shown beside CLNR.
    """
    chosen, name = _choose(method, dataset)
    recipe = _recipe(chosen, name, parse(assign or []))
    lineup = [(chosen, recipe)]
    if method is None and not as_json:
        lineup = [*((each, recipe) for each in _BASELINES), *lineup]
    rows, failures = _all_runs(lineup, name, seeds, device, data_root, again, quiet)
    if as_json:
        print(json.dumps(rows[-1][0].to_dict()))
    else:
        _title(name, rows[-1][0])
        out.print(report.summaries(rows))
        out.print(_OPTIMISTIC, style="dim")
    for failure in failures:
        raise failure


@app.command()
def compare(
    dataset: DatasetName = None,
    names: Annotated[
        str, typer.Option("--methods", help="Names with commas between; the first is the one compared with.")
    ] = "CLNR,GRACE,CCA-SSG",
    seeds: Seeds = 5,
    device: Device = "auto",
    data_root: DataRoot = None,
    assign: Assign = None,
    again: Again = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run several methods on DATASET with the same seeds and splits, and test the first against each of the others."""
    name = data.find("embedded" if dataset is None else dataset).name
    chosen = [methods.find(each.strip()) for each in names.split(",")]
    if len(chosen) < 2 or len({each.name for each in chosen}) < len(chosen):
        raise ClnrError(f"--methods needs two or more different methods, not '{names}'")
    changes = parse(assign or [])
    for key in changes:
        if not any(key in each.keys for each in chosen):
            raise RecipeError(f"none of {', '.join(each.name for each in chosen)} has a use for {key}")
    lineup = []
    for each in chosen:
        own = {key: value for key, value in changes.items() if key in each.keys}
        lineup.append((each, _recipe(each, name, own)))
    rows, failures = _all_runs(lineup, name, seeds, device, data_root, again, quiet)
    made, published = (list(column) for column in zip(*rows, strict=True))
    compared = Comparison.of(made)
    if as_json:
        print(json.dumps(compared.to_dict()))
    else:
        _title(name, made[0])
        out.print(report.comparison(compared, published))
        out.print(_OPTIMISTIC, style="dim")
        out.print(f"** {report.test_note(compared)}", style="dim")
    for failure in failures:
        raise failure


@app.command()
def search(
    method: MethodName = None,
    dataset: DatasetName = None,
    over: Annotated[
        list[str] | None, typer.Option(metavar="KEY=A,B,C", help="Values to try; all combinations of several.")
    ] = None,
    seeds: Seeds = 3,
    device: Device = "auto",
    data_root: DataRoot = None,
    assign: Assign = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Try values of a recipe for METHOD on DATASET by validation accuracy alone: test labels are taken away first."""
    chosen, name = _choose(method, dataset)
    recipe = _recipe(chosen, name, parse(assign or []))
    trials = [Trial(changes, recipe.but(**_used(chosen, changes))) for changes in grid(over or [])]
    engine = choose(device)
    _positive(seeds)
    with _stoppable("stopped; a search keeps nothing"), progress_bar(quiet) as bar:
        graph = data.load(name, data_root, partial(download, progress=bar.fetched))
        found = try_all(Session(seeds, engine, Record(), again=True, bar=bar), chosen, graph, trials)
    if as_json:
        print(json.dumps([without_nan(each.to_dict()) for each in found]))
    else:
        where = machine.describe(engine.device)
        out.print(f"{chosen.name} on {name}, {seeds} seed{'s' if seeds > 1 else ''}, {where}", style="bold")
        out.print(report.trials(found))
    failed = [trial for trial in found if trial.failure]
    for trial in failed:
        _say(f"with {', '.join(f'{key}={value}' for key, value in trial.changes.items())}: {trial.failure}")
    if len(failed) == len(found):
        raise typer.Exit(2)


def _recipe(method: Method, dataset: str, changes: dict[str, Any]) -> Recipe:
    return shelf(method, dataset).recipe.but(**_used(method, changes))


def _used(method: Method, changes: dict[str, Any]) -> dict[str, Any]:
    """The same changes, if the method has a use for each."""
    for key in changes:
        if key not in method.keys:
            raise RecipeError(f"{method.name} has no use for {key}; see: clnr show {method.name}")
    return changes


def _title(name: str, summary: Summary) -> None:
    seeds = len(summary.runs)
    out.print(f"{name}, {seeds} seed{'s' if seeds > 1 else ''}, {summary.runs[0].machine}", style="bold")


def _positive(seeds: int) -> None:
    if seeds < 1:
        raise RecipeError(f"--seeds must be at least 1, not {seeds}")


def _all_runs(
    lineup: list[tuple[Method, Recipe]], dataset: str, seeds: int, device: str, data_root: Path | None, again: bool, quiet: bool
) -> tuple[list[tuple[Summary, Published | None]], list[RecordError]]:
    """Runs of each method of a line-up, each with what was published of it, and what failed of recording them."""
    engine = choose(device)
    record = Record()
    _positive(seeds)
    record.prepare()
    with _stoppable(_KEPT), progress_bar(quiet) as bar:
        graph = data.load(dataset, data_root, partial(download, progress=bar.fetched))
        session = Session(seeds, engine, record, again, bar)
        made, failures = zip(*(session.runs(method, graph, recipe) for method, recipe in lineup), strict=True)
    shelves = [shelf(method, dataset) for method, _ in lineup]
    # A published result says nothing about a recipe that was changed.
    published = [own.published if own.recipe == recipe else None for own, (_, recipe) in zip(shelves, lineup, strict=True)]
    return list(zip(made, published, strict=True)), [failure for failure in failures if failure is not None]


@contextmanager
def _stoppable(said: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _say(said)
        raise typer.Exit(130) from None


def _choose(method: str | None, dataset: str | None) -> tuple[Method, str]:
    if method is not None and dataset is None and method.lower() in data.DATASETS:
        raise ClnrError(f"'{method}' is a data set; the method comes first: {methods.CLNR.name} {method}")
    chosen = methods.CLNR if method is None else methods.find(method)
    return chosen, data.find("embedded" if dataset is None else dataset).name


@app.command(name="ls")
def list_command(
    what: Annotated[str, typer.Argument(help="methods or datasets.")],
    as_json: Json = False,
) -> None:
    """List the methods, or the data sets."""
    tables = {"methods": report.methods, "datasets": report.datasets}
    if what.lower() not in tables:
        raise UnknownName("list", what, tables)
    if as_json:
        print(json.dumps(list(methods.METHODS if what.lower() == "methods" else data.DATASETS)))
    else:
        out.print(tables[what.lower()]())


@app.command()
def show(method: MethodName = None, dataset: DatasetName = None, as_json: Json = False) -> None:
    """Show a recipe: every number, what it means, and where it comes from."""
    chosen, name = _choose(method, dataset)
    found = shelf(chosen, name)
    if as_json:
        published = None if found.published is None else found.published._asdict()
        recipe, sources = ({name: of[name] for name in chosen.keys} for of in (found.recipe.to_dict(), found.sources))
        print(json.dumps({"recipe": recipe, "sources": sources, "published": published}))
        return
    borrowed = f", which uses {found.row}'s recipe" if found.row not in (None, chosen.name) else ""
    out.print(f"{chosen.name} on {name}{borrowed}", style="bold")
    out.print(report.recipe(chosen, name))
    if found.published:
        result = found.published
        out.print(f"published: {result.accuracy:.1f} ± {result.spread:.1f} % ({result.source})")


@app.command()
def runs(
    method: Annotated[str | None, typer.Option(help="Only this method's.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only on this data set.")] = None,
    device: Annotated[str | None, typer.Option(help="Only on this device: cpu or cuda.")] = None,
    last: Annotated[int | None, typer.Option(help="Only the latest N.")] = None,
    as_json: Json = False,
) -> None:
    """List what was run before."""
    if last is not None and last < 1:
        raise RecipeError(f"--last must be at least 1, not {last}")
    if method is not None:
        method = methods.find(method).name
    if dataset is not None:
        dataset = data.find(dataset).name
    if device is not None and device not in DEVICES:
        raise UnknownName("device", device, DEVICES)
    record = Record()
    rows = record.runs(method, dataset, device, last)
    if as_json:
        print(json.dumps([without_nan({"made": made, **vars(each)}) for made, each in rows]))
    elif rows:
        out.print(report.runs(rows))
        out.print(_OPTIMISTIC, style="dim")
    else:
        print(f"no such run in {record.path} yet; make one with: clnr run", file=sys.stderr)


@app.command()
def env(as_json: Json = False) -> None:
    """Print what to paste into a bug report: versions, machine, places."""
    facts = report.environment()
    if as_json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            print(f"{name + ':':<17}{value}")


def main() -> None:
    """Entry point: what a user can get wrong becomes one line and exit code 2."""
    sys.exit(_main())


def _main() -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return 130
    except ClnrError as error:
        said = str(error)
    except BrokenPipeError:
        # Whoever read our output has gone; nor can anything be said at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        said = f"cannot read or write: {error}"
    except Exception as error:
        # Words that the parser refuses; its errors share this method, but no class across versions of Typer.
        if not hasattr(error, "format_message"):
            raise
        said = error.format_message()
        if not said:  # Called without a word: the help has been shown.
            return 2
        said += " See: clnr --help"
    _say(" ".join(said.split()))
    return 2


def _say(text: str) -> None:
    """One line on standard error, if there is one."""
    if sys.stderr:
        print(f"clnr: {text}", file=sys.stderr)
