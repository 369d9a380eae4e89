"""Commands that regenerate the paper: table, figure, paper, claims."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from clnr.cli.app import Device, Precision, Quiet, app, say, tell
from clnr.cli.cmd_run import DataRoot, stoppable
from clnr.datasets.download import download
from clnr.engine import DEVICES, PRECISIONS, choose
from clnr.errors import ClnrError, DataError, UnknownName
from clnr.experiments.run_cache import RunCache
from clnr.paper import claims as claiming
from clnr.paper.executor import Site, do_all
from clnr.paper.exhibits import EXHIBITS, FIGURES, TABLES, Exhibit, needs, write_runs, write_sheet
from clnr.paper.plan import Job, Plan, plan
from clnr.paper.result_set import Holdings
from clnr.paper.run_index import Archive, Terms
from clnr.paper.scope import Scope
from clnr.support.progress import Bar, progress_bar

_KEPT = "stopped; the runs that had ended are in the record, and the same command goes on from there"
_FORMS = ("markdown", "latex", "csv")

Form = Annotated[str, typer.Option("--format", help="What to print: markdown, latex or csv.")]
Older = Annotated[bool, typer.Option("--any-version", help="Count runs of other versions of this program and of torch too.")]
Number = Annotated[int, typer.Argument(metavar="N", help="Which one.")]


@dataclass(frozen=True)
class Asked:
    """What all commands of the paper can be asked."""

    scope: Scope
    terms: Terms
    data_root: Path | None
    jobs: int
    as_is: bool
    only_plan: bool
    quiet: bool


def _asked(
    seeds: Annotated[int | None, typer.Option(help="So many everywhere; else 20, 10 or 5, as each table has it.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Only these, with commas between.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these, with commas between.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sets, 2 seeds, few epochs: to see that all works.")] = False,
    jobs: Annotated[int, typer.Option(help="How many processes work at once.")] = 1,
    device: Device = "auto",
    precision: Precision = "auto",
    data_root: DataRoot = None,
    as_is: Annotated[bool, typer.Option("--cached-only", help="Run nothing: take what the record has.")] = False,
    older: Older = False,
    only_plan: Annotated[bool, typer.Option("--dry-run", help="Say what would be run, and stop.")] = False,
    quiet: Quiet = False,
) -> Asked:
    if jobs < 1:
        raise ClnrError(f"--jobs must be at least 1, not {jobs}")
    for what, word, known in (("device", device, DEVICES), ("precision", precision, PRECISIONS)):
        if word not in known:
            raise UnknownName(what, word, known)
    terms = Terms(device, precision, older)
    return Asked(Scope.of(datasets, methods, seeds, quick), terms, data_root, jobs, as_is, only_plan, quiet)


def _asking(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is what all can be asked, with those options after its own."""
    own, shared = (list(inspect.signature(each).parameters.values()) for each in (command, _asked))

    def call(**given: Any) -> None:
        command(_asked(**{each.name: given.pop(each.name) for each in shared}), **given)

    hints = get_type_hints(command, include_extras=True) | get_type_hints(_asked, include_extras=True)
    parameters = [each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY) for each in own[1:] + shared]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


@app.command()
@_asking
def table(
    asked: Asked,
    number: Number,
    form: Form = "markdown",
    folder: Annotated[Path | None, typer.Option("--out", help="Folder to write it to instead, in all forms.")] = None,
) -> None:
    """Make a table of the paper: 1 architectures, 2 accuracy, 3 training time, 4 data sets, 5 hyper-parameters, 6 clusters.

    Runs that it needs and the record lacks are made first.
    """
    exhibit = _numbered("table", TABLES, number)
    _check(form)
    holdings = _holdings([exhibit], asked, folder)
    if holdings is None:
        return
    if folder is None:
        tell(getattr(exhibit.sheet(asked.scope, holdings), form)().rstrip("\n"))
        _tell([], holdings)
    else:
        _tell(exhibit.write(asked.scope, holdings, folder), holdings)


@app.command()
@_asking
def figure(
    asked: Asked,
    number: Number,
    folder: Annotated[Path, typer.Option("--out", help="Folder to write it to.")] = Path(),
) -> None:
    """Draw a figure of the paper: 1 nodes on the circle, 2 alignment and uniformity, 3 dimensions, 4 edge noise.

    It comes as PNG and SVG, and its numbers as Markdown, LaTeX and CSV. Runs that it needs and the record lacks are made first.
    """
    exhibit = _numbered("figure", FIGURES, number)
    holdings = _holdings([exhibit], asked, folder)
    if holdings is not None:
        _tell(exhibit.write(asked.scope, holdings, folder), holdings)


@app.command()
@_asking
def paper(
    asked: Asked,
    folder: Annotated[Path, typer.Option("--out", help="Folder to write it to.")] = Path("paper"),
) -> None:
    """Make every table and figure of the paper, and put its claims to the test.

    Whatever the record has is not run again: after a stop, the same command goes on.
    """
    holdings = _holdings(EXHIBITS, asked, folder)
    if holdings is None:
        return
    written = [path for exhibit in EXHIBITS for path in exhibit.write(asked.scope, holdings, folder)]
    written += write_sheet(claiming.sheet(asked.scope, holdings), folder)
    _tell([*written, write_runs(holdings, needs(EXHIBITS, asked.scope), folder)], holdings)


@app.command()
def claims(form: Form = "markdown", older: Older = False) -> None:
    """Put the paper's claims to the test, by the runs that the record has: clnr paper makes them."""
    _check(form)
    tell(getattr(claiming.sheet(Scope(), Holdings(Archive(RunCache(), Terms(older=older)))), form)().rstrip("\n"))


def _check(form: str) -> None:
    if form not in _FORMS:
        raise UnknownName("format", form, _FORMS)


def _numbered(kind: str, exhibits: tuple[Exhibit, ...], number: int) -> Exhibit:
    if not 1 <= number <= len(exhibits):
        known = ", ".join(f"{i} {exhibit.about}" for i, exhibit in enumerate(exhibits, 1))
        raise ClnrError(f"the paper has no {kind} {number}; it has {known}")
    return exhibits[number - 1]


def _holdings(exhibits: Iterable[Exhibit], asked: Asked, folder: Path | None) -> Holdings | None:
    """What some tables and figures are filled from, made now as far as it is missing; None where only a plan was asked for."""
    _check_folder(folder)
    run_cache, batches = RunCache(), needs(exhibits, asked.scope)
    with stoppable(_KEPT), progress_bar(asked.quiet) as bar:
        fetch = _refuse if asked.as_is or asked.only_plan else partial(download, progress=bar.fetched)
        holdings = Holdings(Archive(run_cache, asked.terms), asked.data_root, fetch)
        for name in dict.fromkeys(batch.dataset for batch in batches):
            holdings.load(name)
        if asked.as_is and not asked.only_plan:
            return holdings
        ahead = plan(batches, holdings.archive, choose(asked.terms.device, asked.terms.precision), holdings.without)
        if asked.only_plan:
            tell(ahead.told(asked.jobs))
            return None
        bar.remark(ahead.told(asked.jobs))
        if ahead.jobs:
            run_cache.prepare()
            _work(ahead, Site(run_cache.path, asked.terms, asked.data_root), asked.jobs, bar, holdings)
            holdings.archive.read()
    return holdings


def _check_folder(folder: Path | None) -> None:
    """Fail now, not after hours of work, if nothing could be written."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClnrError(f"--out {folder} cannot be made a folder: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise ClnrError(f"--out {folder} cannot be written to")


def _refuse(url: str, target: Path) -> None:
    raise DataError(f"it was not looked for at {url}, since nothing was to be run")


def _work(ahead: Plan, site: Site, workers: int, bar: Bar, holdings: Holdings) -> None:
    """Make a plan's runs; what fails is said and noted, and the others go on."""
    began, made = time.perf_counter(), 0
    with bar.counting(ahead.runs) as count:
        for done in do_all(ahead.jobs, site, workers, lambda job: partial(_say_epoch, job, count)):
            made += len(done.job.seeds)
            count(len(done.job.seeds), str(done.job))
            bar.log(f"{made:,} of {ahead.runs:,} runs, {time.perf_counter() - began:,.0f} s: {done.job}")
            if done.failure:
                holdings.failures[done.job.batch.kind] = done.failure
                say(f"{done.job}: {done.failure}")


def _say_epoch(job: Job, count: Callable[[int, str], None], epoch: int, loss: float) -> None:
    count(0, f"{job}, epoch {epoch} of {job.batch.recipe.epochs}")


def _tell(written: Iterable[Path], holdings: Holdings) -> None:
    """Name what was written; where something failed that it should show, exit with 2."""
    for path in written:
        tell(str(path))
    if holdings.failures:
        raise typer.Exit(2)
