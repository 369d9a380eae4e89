"""Embedding a graph of your own: embed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from clnr.cli.app import app, out, print_json, print_stderr, print_stdout
from clnr.cli.options import OUTPUT_PANEL, TABLE_PANELS, Json, reads_tables, settings_of
from clnr.cli.worker_options import NumWorkers, RayAddress, by_workers
from clnr.errors import ClnrError, option
from clnr.support.arguments import check_memory
from clnr.support.processes.launch import STOPPED, Place


def _check(tables: dict[str, Any], graph: Path | None, folder: Path | None, ray: str | None, **options: Any) -> None:
    """Raise what can be wrong without looking at a graph, before the slow import of torch."""
    from clnr.embedding.defaults import check_labels, choose_method
    from clnr.embedding.result.artifact_files import check_output
    from clnr.graph.manifest import MANIFEST, find_manifest
    from clnr.methods.recipe import Recipe, check_used
    from clnr.support.storage import read_stable
    from clnr.tables.table_arguments import check_arguments, check_files

    given = [name for name, value in tables.items() if value is not None]
    if options["memory"] is not None:
        check_memory(options["memory"])
    if graph is not None and given:
        raise ClnrError(f"--graph is a complete graph, whose columns were named in clnr ingest: leave out {option(given[0])}")
    if graph is None:
        if "edges" not in given:
            raise ClnrError("missing --edges FILE (or --graph FOLDER); see: clnr embed --help")
        check_arguments("read_tables", **tables)
    if folder is None and not options["dry_run"]:
        raise ClnrError("missing --out FOLDER; see: clnr embed --help")
    changes, of_job, _ = settings_of(options["assign"])
    method = choose_method(of_job.get("method"), options["effort"], options["purpose"])["method"]
    check_used(method, changes)
    Recipe().but(**changes)
    check_labels(method, "label" in given or graph is not None)
    # Workers elsewhere may have other files; and of those here, one has begun to write when another looks.
    if ray is not None or Place.from_environment() is not None:
        return
    if graph is not None:
        read_stable(graph, MANIFEST, lambda: find_manifest(graph))
    check_files(**tables)
    if folder is not None and not options["dry_run"]:
        check_output(folder, options["force"], options["resume"])


_PURPOSE = "Choose vectors for one task: labels (what predicts --label best) or links (what predicts edges best)."
_ASSIGN = "Set one of: method (a name of clnr ls methods), seed, hold_out (share of edges to score by), device, precision, "
_ASSIGN += "threads, or a hyper-parameter, such as epochs=200; repeatable. Names: clnr recipe."
_MEMORY = "Memory limit, from '1 GB' on, of reading tables; with --graph, a larger graph is trained from its files."
PANELS = {
    "What most runs need": ("edges", "nodes", "label", "folder", "effort", "dry_run"),
    **TABLE_PANELS,
    "Method": ("purpose", "assign", "baselines"),
    OUTPUT_PANEL: ("force", "report", "as_json"),
    "Larger graphs": ("graph", "memory", "resume", "workers", "ray"),
}


@app.command()
@reads_tables(PANELS)
@by_workers(_check)
def embed(
    tables: dict[str, Any],
    graph: Annotated[Path | None, typer.Option(help="Instead of tables: a graph folder written by clnr ingest.")] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Output folder; needed unless --dry-run.")] = None,
    effort: Annotated[str | None, typer.Option(help="Time to spend: quick (no training), standard (default) or best.")] = None,
    purpose: Annotated[str | None, typer.Option("--for", metavar="PURPOSE", help=_PURPOSE)] = None,
    assign: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_ASSIGN)] = None,
    baselines: Annotated[bool, typer.Option(help="Also score raw features and training-free methods.")] = True,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint, if there is one.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out, if clnr wrote it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, with its memory, and stop.")] = False,
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True,
    memory: Annotated[str | None, typer.Option(help=_MEMORY)] = None,
    workers: NumWorkers = 1,
    ray: RayAddress = None,
    as_json: Json = False,
) -> None:
    """From tables of edges and nodes to vectors, a model and a report."""
    from clnr.embedding import job
    from clnr.embedding.defaults import choose_method
    from clnr.embedding.fit_settings import Settings
    from clnr.embedding.planning.plan import make_plan
    from clnr.embedding.result.artifact import Output
    from clnr.embedding.workspace import Workspace
    from clnr.engine import choose
    from clnr.engine.distributed.worker_session import current_workers
    from clnr.graph.folder import open_graph
    from clnr.support.machine.memory import process_peaks
    from clnr.support.progress import progress_bar
    from clnr.support.stage_clock import StageClock
    from clnr.tables import read_tables

    began, group = perf_counter(), current_workers()
    recipe, of_job, of_engine = settings_of(assign)
    settings = Settings(
        **choose_method(of_job.pop("method", None), effort, purpose),
        **of_job,
        engine=choose(**of_engine),
        recipe=recipe,
        baselines=baselines,
        resume=resume and folder is not None,
        workers=group,
    )
    settings = job.as_begun(settings, folder)
    # Of tables, it bounds the reading.
    limit = None if graph is None or memory is None else check_memory(memory)

    def read(note: Any = None) -> Any:
        return read_tables(**tables, memory=memory, progress=note) if graph is None else open_graph(graph)

    if folder is None or dry_run:
        plan = make_plan(read(), settings, limit, workers if group.alone else None)
        if group.first:
            show_plan(plan.to_dict() if as_json else plan.lines)
        return
    try:
        measured = settings.engine.device if as_json else None
        with progress_bar(not group.first) as bar, StageClock(measured, bar.show_stage) as clock:
            output = Output(folder, force, report)
            result = job.embed(lambda: read(bar.show_stage), settings, limit=limit, output=output, bar=bar)
    except KeyboardInterrupt:
        if group.first:
            print_stderr(Workspace.of_output(folder).stopped)
        # Not typer.Exit, which is an Exception: a session of workers would take it for an error of this one.
        sys.exit(STOPPED)
    if result is not None:
        stages = [{"stage": name, "seconds": each} for name, each in clock.seconds.items() if each]
        took = {"stages": stages, **process_peaks(settings.engine.device)}
        print_result(result, folder, perf_counter() - began, as_json, took)
    elif group.first:
        print_stderr(f"{folder} is finished: there is nothing to resume")


def show_plan(plan: dict[str, Any] | list[str]) -> None:
    """Print what --dry-run prints: facts as JSON, or lines."""
    if isinstance(plan, dict):
        print_json(plan)
    else:
        print_stdout("\n".join(plan))


def print_result(
    result: Any, folder: Path, seconds: float, as_json: bool, took: dict[str, Any] | None = None, trained: bool = True
) -> None:
    """Print what was made, where it is and how good it is; of new nodes, which come last, how good the training was."""
    from clnr.embedding.scoring.baseline_comparison import compare, headline_scores
    from clnr.support.humanize import duration, plural

    compared = compare(result.model.method, result.scores, result.baselines, result.model.provenance.purpose)
    if as_json:
        comparison = compared.sentence or None if compared else None
        print_json(_facts(result, folder, seconds, trained) | {"comparison": comparison} | (took or {}))
        return
    nodes, dimension = map(int, result.z.shape)
    made = f"{plural(nodes, 'node')} in {dimension} dimensions, {duration(seconds)}: {folder}"
    out.print(made, style="bold")
    lost = [note for note in result.graph.info.notes if note.startswith(("warning: ", "left out: "))]
    if trained:
        _print_scores(result.scores, compared, (*lost, *result.warnings))
    else:
        known = ", ".join(f"{score.name} {score.value}" for score in headline_scores(result.scores, {}, dimension))
        out.print(f"scores at training, without the new tables: {known or 'none'}")
        _print_warnings(lost)
    node = str(result.graph.node_ids[0 if trained else nodes - 1])
    similar = ["clnr", "similar", str(folder), *(["--"] if node.startswith("-") else []), node]
    commands = similar, ["clnr", "report", str(folder), "--open"]
    print_stdout("\n  ".join(["next:", *map(shlex.join, commands)]))


def _facts(result: Any, folder: Path, seconds: float, trained: bool) -> dict[str, Any]:
    from clnr.embedding.graph_facts import counts_of, kind_weights

    nodes, dimension = map(int, result.z.shape)
    return {
        "nodes": nodes,
        "folder": str(folder),
        "dimension": dimension,
        "shards": len(result.z.paths) if hasattr(result.z, "paths") else None,
        "graph": counts_of(result.graph),
        "files": sorted(path.name for path in folder.iterdir()),
        "seconds": round(seconds, 3),
        "scores" if trained else "scores_of_training": result.scores,
        "baselines": result.baselines,
        "warnings": [*result.graph.info.notes, *kind_weights(result.graph.info), *result.warnings],
    }


def _print_scores(scores: dict[str, float], compared: Any, warnings: tuple[str, ...]) -> None:
    from clnr.cli import console_tables
    from clnr.embedding.result.report_data import format_scores
    from clnr.support.console import Table

    table = Table("score", "value", box=None, pad_edge=False)
    for description, value in format_scores(scores, details=False):
        table.add_row(description, value)
    if table.rows:
        out.print(table)
    if compared is not None:
        out.print(console_tables.baselines(compared))
        if compared.sentence:
            out.print(compared.sentence)
    _print_warnings(warning for warning in warnings if compared is None or warning != compared.sentence)


def _print_warnings(warnings: Iterable[str]) -> None:
    for warning in warnings:
        out.print(f"- {warning}", style="yellow")
