"""Commands that regenerate the paper: table, figure, paper, claims; ``python -m reproduce table 2``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clnr.cli.app import Device, Precision, Quiet, print_stderr, print_stdout
from clnr.cli.cmd_experiments import DataRoot, stoppable
from clnr.cli.options import shares
from clnr.errors import ClnrError, DataError
from clnr.support.arguments import check_choice
from clnr.support.lazy import import_optional

if TYPE_CHECKING:
    from clnr.support.progress import Bar
    from reproduce.exhibits import Exhibit
    from reproduce.paper_runs.executor import WorkerConfig
    from reproduce.paper_runs.plan import Job, Plan
    from reproduce.paper_runs.run_index import ResultSet, RunFilter, RunSource
    from reproduce.paper_runs.scope import Scope

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_STOPPED_MESSAGE = "stopped; finished runs are in the run cache: run the same command to resume"
_FORMS = ("markdown", "latex", "csv")

Form = Annotated[str, typer.Option("--format", help="What to print: markdown, latex or csv.")]
AnyVersion = Annotated[bool, typer.Option("--any-version", help="Also use runs of other versions of clnr and torch.")]
FromRuns = Annotated[
    list[Path] | None,
    typer.Option("--runs", metavar="FILE", help="Train nothing: use the runs in a runs.csv of reproduce; repeatable."),
]
Number = Annotated[int, typer.Argument(metavar="N", help="Which one.")]


@dataclass(frozen=True)
class Asked:
    """The options that all commands of the paper share."""

    seeds: Annotated[int | None, typer.Option(help="Seeds per method; default: 20, or the number of the table.")] = None
    datasets: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None
    methods: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None
    quick: Annotated[bool, typer.Option("--quick", help="A quick check: small data sets, 2 seeds, few epochs.")] = False
    jobs: Annotated[int, typer.Option(help="How many processes train at once.")] = 1
    device: Device = "auto"
    precision: Precision = "auto"
    data_root: DataRoot = None
    cached_only: Annotated[bool, typer.Option("--cached-only", help="Train nothing: use the runs in the run cache.")] = False
    any_version: AnyVersion = False
    from_runs: FromRuns = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be run.")] = False
    quiet: Quiet = False

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ClnrError(f"--jobs must be at least 1, not {self.jobs}")
        if self.from_runs and self.dry_run:
            raise ClnrError("--dry-run shows what would be run, and --runs runs nothing; give one of them")

    @cached_property
    def scope(self) -> Scope:
        from reproduce.paper_runs.scope import Scope

        return Scope.of(self.datasets, self.methods, self.seeds, self.quick)

    @property
    def run_filter(self) -> RunFilter:
        from reproduce.paper_runs.run_index import RunFilter

        return RunFilter(self.device, self.precision, self.any_version or bool(self.from_runs))


@app.command()
@shares(Asked)
def table(
    asked: Asked,
    number: Number,
    form: Form = "markdown",
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder to write it to, in all formats, instead of printing it.")
    ] = None,
) -> None:
    """Make a table of the paper: 1 architectures, 2 accuracy, 3 training time, 4 data sets, 5 hyper-parameters, 6 clusters.

    Runs that are not in the run cache are made first.
    """
    from reproduce.exhibits import TABLES

    exhibit = _numbered("table", TABLES, number)
    check_choice("format", form, _FORMS)
    results = _results([exhibit], asked, folder)
    if results is None:
        return
    if folder is None:
        print_stdout(getattr(exhibit.table(asked.scope, results), form)().rstrip("\n"))
        _print_written([], results)
    else:
        _print_written(exhibit.write(asked.scope, results, folder), results)


@app.command()
@shares(Asked)
def figure(
    asked: Asked,
    number: Number,
    folder: Annotated[Path, typer.Option("--out", help="Folder to write it to.")] = Path(),
) -> None:
    """Draw a figure of the paper: 1 nodes on the circle, 2 alignment and uniformity, 3 dimensions, 4 edge noise.

    Writes PNG and SVG, and its numbers as Markdown, LaTeX and CSV. Runs that are not in the run cache are made first.
    """
    from reproduce.exhibits import FIGURES

    exhibit = _numbered("figure", FIGURES, number)
    results = _results([exhibit], asked, folder)
    if results is not None:
        _print_written(exhibit.write(asked.scope, results, folder), results)


@app.command()
@shares(Asked)
def paper(
    asked: Asked,
    folder: Annotated[Path, typer.Option("--out", help="Folder to write it to.")] = Path("paper"),
) -> None:
    """Make every table and figure of the paper, and test its claims.

    Runs in the run cache are not made again: after a stop, the same command resumes.
    """
    from reproduce import authors, claim_report
    from reproduce.exhibits import EXHIBITS, needs, write_table
    from reproduce.paper_runs.runs_file import write_runs

    results = _results(EXHIBITS, asked, folder)
    if results is None:
        return
    written = [path for exhibit in EXHIBITS for path in exhibit.write(asked.scope, results, folder)]
    written += claim_report.report(asked.scope, results).write(folder)
    written += write_table(authors.table(asked.scope, results), folder)
    _print_written([*written, write_runs(results, needs(EXHIBITS, asked.scope), folder)], results)


@app.command()
def claims(form: Form = "markdown", any_version: AnyVersion = False, from_runs: FromRuns = None) -> None:
    """Test the paper's claims with the runs in the run cache, which ``paper`` makes."""
    from reproduce import claim_report
    from reproduce.paper_runs.run_index import ResultSet, RunFilter, RunIndex
    from reproduce.paper_runs.scope import Scope

    check_choice("format", form, _FORMS)
    run_filter = RunFilter(any_version=any_version or bool(from_runs))
    results = ResultSet(RunIndex(_source(from_runs), run_filter))
    print_stdout(getattr(claim_report.report(Scope(), results), form)().rstrip("\n"))


def _source(from_runs: list[Path] | None) -> RunSource:
    """The runs of some files, or the run cache."""
    from clnr.experiments.run_cache import RunCache
    from reproduce.paper_runs.runs_file import RunsFiles

    return RunsFiles(from_runs) if from_runs else RunCache()


def _numbered(kind: str, exhibits: tuple[Exhibit, ...], number: int) -> Exhibit:
    if not 1 <= number <= len(exhibits):
        known = ", ".join(f"{i} {exhibit.about}" for i, exhibit in enumerate(exhibits, 1))
        raise ClnrError(f"the paper has no {kind} {number}; it has {known}")
    return exhibits[number - 1]


def _results(exhibits: Sequence[Exhibit], asked: Asked, folder: Path | None) -> ResultSet | None:
    """What some tables and figures are filled from, made now as far as it is missing; None where only a plan was asked for."""
    from clnr.datasets.download import download
    from clnr.engine import choose
    from clnr.experiments.run_cache import RunCache
    from clnr.support.progress import progress_bar
    from reproduce.exhibits import needs
    from reproduce.paper_runs.executor import WorkerConfig
    from reproduce.paper_runs.plan import plan
    from reproduce.paper_runs.run_index import ResultSet, RunIndex

    run_cache, batches = RunCache(), needs(exhibits, asked.scope)
    _check_folder(folder)
    # Fail before the runs, not after them.
    if not asked.dry_run and any(exhibit.draw for exhibit in exhibits):
        import_optional("matplotlib.figure", "drawing figures", "figures")
    with stoppable(_STOPPED_MESSAGE), progress_bar(asked.quiet) as bar:
        cached_only = asked.cached_only or bool(asked.from_runs)
        fetch = _refuse if cached_only or asked.dry_run else partial(download, progress=bar.fetched)
        results = ResultSet(RunIndex(_source(asked.from_runs), asked.run_filter), asked.data_root, fetch)
        for name in dict.fromkeys(batch.dataset for batch in batches):
            results.load(name)
        if cached_only and not asked.dry_run:
            return results
        ahead = plan(batches, results.run_index, choose(asked.run_filter.device, asked.run_filter.precision), results.without)
        if asked.dry_run:
            print_stdout(ahead.describe(asked.jobs))
            return None
        bar.note(ahead.describe(asked.jobs))
        if ahead.jobs:
            run_cache.prepare()
            _work(ahead, WorkerConfig(run_cache.path, asked.run_filter, asked.data_root), asked.jobs, bar, results)
            results.run_index.refresh()
    return results


def _check_folder(folder: Path | None) -> None:
    """Fail now, not after hours of training, if the folder cannot be written to."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClnrError(f"--out {folder} cannot be made a folder: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise ClnrError(f"--out {folder} cannot be written to")


def _refuse(url: str, target: Path) -> None:
    raise DataError(f"not downloaded from {url}, since nothing is to be run")


def _work(ahead: Plan, config: WorkerConfig, workers: int, bar: Bar, results: ResultSet) -> None:
    """Make the runs of a plan; a failure is reported and noted, and the other jobs continue."""
    from reproduce.paper_runs.executor import run_jobs

    began, finished = time.perf_counter(), 0
    with bar.counting(ahead.runs) as count:

        def on_epoch(job: Job) -> Callable[[int, float], None]:
            return lambda epoch, loss: count(0, f"{job}, epoch {epoch} of {job.batch.recipe.epochs}")

        for done in run_jobs(ahead.jobs, config, workers, on_epoch):
            finished += len(done.job.seeds)
            count(len(done.job.seeds), str(done.job))
            bar.log(f"{finished:,} of {ahead.runs:,} runs, {time.perf_counter() - began:,.0f} s: {done.job}")
            if done.failure:
                results.failures[done.job.batch.kind] = done.failure
                print_stderr(f"{done.job}: {done.failure}")


def _print_written(written: Iterable[Path], results: ResultSet) -> None:
    """Print the paths that were written; exit with 2 if some runs failed."""
    for path in written:
        print_stdout(str(path))
    if results.failures:
        raise typer.Exit(2)


def main() -> None:
    """Run a command; a mistake of the user becomes one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except ClnrError as error:
        print_stderr(error.message)
        code = 2
    sys.exit(code or 0)


if __name__ == "__main__":
    main()
