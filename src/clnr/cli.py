"""The command line: a thin leaf on the library."""

from __future__ import annotations

import io
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from clnr import data, machine, methods, places, report
from clnr.data.files import download
from clnr.engine import DEVICES, Engine, choose
from clnr.errors import ClnrError, RecipeError, RecordError, UnknownName
from clnr.graph import Graph
from clnr.methods import Method
from clnr.recipe import Recipe, parse
from clnr.record import Record, run_key
from clnr.run import Run, Summary, run, shelf, without_nan
from clnr.version import __version__

app = typer.Typer(
    help="Embeddings of the nodes of a graph, without labels.",
    epilog="Start with: clnr run. Then: clnr run CLNR cora --seeds 20",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(width=None if sys.stdout and sys.stdout.isatty() else 160, highlight=False, markup=False)
err = Console(stderr=True, highlight=False)

_OPTIMISTIC = "* the paper's rule lets the test set choose the probe's step; strict reads the test set once"
_BASELINES = (methods.RAW, methods.UNTRAINED)

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
    seeds: Annotated[int, typer.Option(help="How many runs, with seeds 0, 1, 2 ...")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_root: Annotated[Path | None, typer.Option(help="Folder with raw data, looked into first.")] = None,
    assign: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe's number.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Run even what the record holds already.")] = False,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no remarks.")] = False,
) -> None:
    """Train METHOD on DATASET (CLNR on the embedded graph) and evaluate it.

    Without METHOD, raw features and the untrained encoder are shown beside CLNR.
    """
    if seeds < 1:
        raise RecipeError(f"--seeds must be at least 1, not {seeds}")
    chosen, name = _choose(method, dataset)
    recipe = shelf(chosen, name).recipe.but(**parse(assign or []))
    engine = choose(device)
    record = Record()
    record.prepare()
    lineup = [chosen] if method is not None or as_json else [*_BASELINES, chosen]
    try:
        with _progress(quiet) as bar:
            graph = data.load(name, data_root, partial(download, progress=bar.fetched))
            made, failures = zip(
                *(_seeds(each, graph, recipe, seeds, engine, record, again, bar) for each in lineup), strict=True
            )
    except KeyboardInterrupt:
        _say("stopped; the runs that had ended are in the record, and the same command without --again goes on from there")
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps(made[-1].to_dict()))
    else:
        shelves = [shelf(each, name) for each in lineup]
        # A published result says nothing about a recipe that was changed.
        rows = [(summary, own.published if own.recipe == recipe else None) for summary, own in zip(made, shelves, strict=True)]
        out.print(f"{name}, {seeds} seed{'s' if seeds > 1 else ''}, {made[-1].runs[0].machine}", style="bold")
        out.print(report.summaries(rows))
        out.print(_OPTIMISTIC, style="dim")
    for failure in filter(None, failures):
        raise failure


def _choose(method: str | None, dataset: str | None) -> tuple[Method, str]:
    if method is not None and dataset is None and method.lower() in data.DATASETS:
        raise ClnrError(f"'{method}' is a data set; the method comes first: {methods.CLNR.name} {method}")
    chosen = methods.CLNR if method is None else methods.find(method)
    return chosen, data.find("embedded" if dataset is None else dataset).name


def _seeds(
    method: Method, graph: Graph, recipe: Recipe, seeds: int, engine: Engine, record: Record, again: bool, bar: _Bar
) -> tuple[Summary, RecordError | None]:
    """Runs of all seeds: from the record where it has them, else made now and recorded.

    A run that cannot be recorded is still a run: it is returned with the rest, and the reason beside them.
    """
    made: list[Run] = []
    failure: RecordError | None = None
    recalled = 0
    for seed in range(seeds):
        key = run_key(graph, method, recipe, seed, engine)
        found = None if again else record.find(key)
        recalled += found is not None
        if found is None:
            epochs = recipe.epochs if method.objective else 0
            with bar.training(f"{method.name} on {graph.name}, seed {seed}", epochs) as watch:
                found = run(method, graph, seed, recipe=recipe, device=engine.device.type, watch=watch)
            try:
                record.add(key, found)
            except RecordError as error:
                failure = error
        made.append(found)
    if recalled:
        bar.remark(f"{method.name}: {recalled} of {seeds} from the record ({record.path}); --again runs them anew")
    return Summary.of(made), failure


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
        print(json.dumps({"recipe": found.recipe.to_dict(), "sources": found.sources, "published": published}))
        return
    borrowed = f", which uses {found.row}'s recipe" if found.row not in (None, chosen.name) else ""
    out.print(f"{chosen.name} on {name}{borrowed}", style="bold")
    out.print(report.recipe(chosen, name))
    if found.published:
        result = found.published
        out.print(f"published: {result.accuracy:.1f} ± {result.spread:.1f} % ({result.source}; by the paper's rule)")


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
    facts: dict[str, Any] = {
        "clnr": f"{__version__} (code {machine.code_version()})",
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processor": machine.describe(torch.device("cpu")),
        "memory": "unknown" if (total := machine.total_memory()) is None else f"{total / 2**30:.1f} GiB",
        "cuda": _cuda(),
        "torch": str(torch.__version__),
    }
    for package in ("torch-geometric", "numpy", "scipy", "pyarrow", "typer", "rich", "triton"):
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    facts |= {"record": str(Record().path), "cache": str(places.cache_folder())}
    facts |= {name: os.environ.get(name, "not set") for name in ("CLNR_DATA", "CLNR_HOME")}
    if as_json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            print(f"{name + ':':<17}{value}")


def _cuda() -> str:
    if not torch.cuda.is_available():
        return "no usable GPU" if torch.version.cuda else "none (PyTorch built without it)"
    return f"{torch.version.cuda}, {torch.cuda.get_device_name()}"


class _Bar:
    """Progress on standard error, so that standard output holds results alone; silent if told so."""

    def __init__(self, progress: Progress | None, quiet: bool):
        self._progress = progress
        self._quiet = quiet
        self._files: dict[str, Any] = {}

    def remark(self, text: str) -> None:
        if not self._quiet:
            err.print(text, style="dim", markup=False, soft_wrap=True)

    def fetched(self, name: str, have: int, total: int | None) -> None:
        if self._progress is None:
            return
        if name not in self._files:
            self._files[name] = self._progress.add_task(f"download {name}", total=total, note="")
        self._progress.update(self._files[name], completed=have, total=total)

    @contextmanager
    def training(self, what: str, epochs: int) -> Iterator[Any]:
        progress = self._progress
        if progress is None:
            yield None
            return
        task = progress.add_task(what, total=epochs or None, note="" if epochs else "evaluating")

        def watch(done: int, loss: float) -> None:
            progress.update(task, completed=done, note=f"loss {loss:.3f}" if done < epochs else "evaluating")

        yield watch
        progress.remove_task(task)


@contextmanager
def _progress(quiet: bool) -> Iterator[_Bar]:
    # A bar is of no use in a log.
    if quiet or not err.is_interactive:
        yield _Bar(None, quiet)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TextColumn("{task.fields[note]}"), TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True
    ) as progress:
        yield _Bar(progress, quiet)


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
