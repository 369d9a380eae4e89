"""Embedding a graph of your own: embed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from clnr.cli.app import Assign, Device, Json, Precision, Quiet, Threads, app, out, print_stderr, print_stdout
from clnr.cli.parallel.worker_options import MaxRestarts, NumWorkers, RayAddress, WorkerTimeout, by_workers
from clnr.cli.recipe_options import sets_recipe
from clnr.cli.table_options import option_of, reads_tables


@app.command()
@sets_recipe
@reads_tables
@by_workers
def embed(
    tables: dict[str, Any],
    graph: Annotated[Path | None, typer.Option(help="Instead of tables: a graph folder, as clnr ingest writes it.")] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Output folder; needed unless --dry-run.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder of an earlier clnr embed: add the tables to its graph, embed with its model.")
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="With --model: embed the tables as a separate graph.")
    ] = False,
    allow_missing_columns: Annotated[
        bool,
        typer.Option("--allow-missing-columns", help="With --model: take a node table with none of the columns of its own."),
    ] = False,
    allow_disjoint: Annotated[
        bool, typer.Option("--allow-disjoint", help="With --model: take edges none of which leads to a node of its graph.")
    ] = False,
    effort: Annotated[
        str | None, typer.Option(help="How much time to spend: quick (no training), standard (the default) or best.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Method, instead of the effort's (list: clnr ls methods); auto: the standard one or what beats it."),
    ] = None,
    assign: Assign = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    hold_out: Annotated[float, typer.Option(help="Share of edges held out of training for the link score; 0 for none.")] = 0.05,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Score raw features and training-free methods beside it.")
    ] = True,
    tune: Annotated[
        int, typer.Option("--tune", metavar="N", help="Search N hyper-parameter settings first (Optuna, extra tune).")
    ] = 0,
    checkpoint_every: Annotated[
        int, typer.Option("--checkpoint-every", metavar="N", help="Save the state of training every N epochs; 0 for never.")
    ] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint, if there is one.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out, if clnr wrote it.")] = False,
    ignore_memory_check: Annotated[
        bool, typer.Option("--ignore-memory-check", help="Train even if the estimate exceeds free memory.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show facts, choices, time and memory, and stop.")] = False,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="Further output formats: csv, npy, word2vec, pyg.")
    ] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    layout: Annotated[
        str | None,
        typer.Option(help="Layout of the report's map: fast (the default), tsne (slower, keeps more neighbours) or umap."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory limit of DuckDB while it reads tables, such as '4 GB'. With --graph, of all: a graph that needs more "
            "is trained on from its files."
        ),
    ] = None,
    from_files: Annotated[
        bool, typer.Option("--from-files", help="With --graph: train from its files, even if it fits in memory.")
    ] = False,
    workers: NumWorkers = 1,
    ray: RayAddress = None,
    max_restarts: MaxRestarts = 3,
    worker_timeout: WorkerTimeout = 1800,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Embed a graph of your own: from tables of edges and nodes to vectors, a model and a report.

    With --model, the tables are added to an earlier graph and embedded with its model; nothing is trained.
    """
    from time import perf_counter

    from clnr.embedding import job
    from clnr.embedding.defaults import choose_method
    from clnr.embedding.extension import plan_extension
    from clnr.embedding.fit_settings import Settings
    from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT, check_layout
    from clnr.embedding.store.artifact import load_folder
    from clnr.embedding.store.export import parse_formats
    from clnr.embedding.store.work_folder import as_begun
    from clnr.engine import choose
    from clnr.engine.distributed.worker_group import current_workers
    from clnr.errors import ClnrError
    from clnr.methods.recipe import parse
    from clnr.support.processes.launch import restarted
    from clnr.support.progress import progress_bar
    from clnr.training.checkpoint import checkpoint_path

    given = [name for name, value in tables.items() if value is not None]
    if not (graph or {"edges", "edges_query"}.intersection(given) or (model and {"nodes", "nodes_query"}.intersection(given))):
        raise ClnrError("missing --edges FILE (or --edges-query, or --graph FOLDER); see: clnr embed --help")
    allowed = {"allow_missing_columns": allow_missing_columns, "allow_disjoint": allow_disjoint}
    for name, value in allowed.items():
        if value and model is None:
            raise ClnrError(f"{option_of(name)} goes with --model, the earlier graph")
    tables |= {"memory": memory, **allowed}
    if graph is not None:
        if given or model is not None:
            other = "--model takes tables" if model is not None else f"leave out {option_of(given[0])}"
            raise ClnrError(f"--graph is a whole graph, whose columns clnr ingest was told: {other}")
        tables = {"graph": graph}
    if layout is not None and not report:
        raise ClnrError("--layout is that of the report's map: leave out --no-report")
    drawn = check_layout(layout or DEFAULT_LAYOUT) if report else None
    group = current_workers()
    if model is not None:
        _check_no_training(
            method=method, effort=effort, set=assign, tune=tune, checkpoint_every=checkpoint_every, resume=resume
        )
        if workers > 1 or not group.alone:
            raise ClnrError("--model trains nothing, so there is nothing for workers to share: leave out --workers")
    if folder is None and not dry_run:
        raise ClnrError("missing --out FOLDER; see: clnr embed --help")
    if folder is not None and model is not None and force and not dry_run and folder.resolve() == model.resolve():
        print_stderr(
            f"{folder} is the folder of the model itself: its graph and vectors are replaced by those with the new tables"
        )
    settings = Settings(
        **choose_method(method, effort),
        engine=choose(device, precision, threads),
        recipe=parse(assign or []),
        seed=seed,
        hold_out=hold_out,
        baselines=baselines,
        tune=tune,
        checkpoint=None if folder is None else checkpoint_path(folder),
        checkpoint_every=checkpoint_every,
        resume=(resume or restarted()) and folder is not None,
        ignore_memory_check=ignore_memory_check,
        workers=group,
    )
    settings = as_begun(settings, folder)
    chosen = parse_formats(formats or [])
    planned = workers if group.alone else None
    if from_files and graph is None:
        raise ClnrError("--from-files reads a graph folder: --graph FOLDER, which clnr ingest writes")
    if graph is not None and (from_files or not _embed_in_memory(graph, settings, memory, planned)):
        _embed_from_files(graph, folder, settings, memory, force, chosen, drawn, dry_run, as_json, quiet, planned)
        return
    if dry_run:
        planned_job: Any
        if model is not None:
            planned_job = plan_extension(load_folder(model), tables, standalone=standalone)
        else:
            _, planned_job = job.plan(job.read_source(tables), settings, planned, drawn or DEFAULT_LAYOUT)
        if group.first:
            print_stdout(json.dumps(planned_job.to_dict()) if as_json else str(planned_job))
        return
    assert folder is not None
    began = perf_counter()
    options: dict[str, Any] = {"model": model, "standalone": standalone, "force": force, "formats": chosen, "layout": drawn}
    try:
        with progress_bar(quiet or not group.first) as bar:
            result = job.embed_tables(tables, folder, settings, **options, bar=bar)
    except KeyboardInterrupt:
        if model is None and group.first:
            _print_stopped(settings.checkpoint)
        raise typer.Exit(130) from None
    if not group.first:
        return
    if result is None:
        print_stderr(f"{folder} is finished: there is nothing to resume")
    else:
        _print_result(result, folder, perf_counter() - began, as_json, trained=model is None)


def _check_no_training(**given: Any) -> None:
    """Raise if an option is given that only a training has a use for."""
    from clnr.errors import ClnrError

    if named := [option_of(name) for name, value in given.items() if value]:
        shown = [f"--set {' '.join(given['set'])}" if each == "--set" else each for each in named]
        raise ClnrError(f"--model trains nothing: leave out {', '.join(shown)}")


def _embed_in_memory(graph: Path, settings: Any, memory: str | None, workers: int | None) -> bool:
    from clnr.embedding.planning.file_plan import fits_memory
    from clnr.graph.graph_folder import GraphFolder

    fits = fits_memory(GraphFolder.open(graph), settings, _bytes(memory), workers)
    # What does not fit on one machine is in files for the workers on all of them.
    return bool(settings.workers.all_reduce_min(fits))


def _bytes(memory: str | None) -> int | None:
    from clnr.errors import ClnrError
    from clnr.support.humanize import parse_bytes

    if memory is not None and parse_bytes(memory) is None:
        raise ClnrError(f"--memory must be an amount such as '4 GB', not '{memory}'")
    return None if memory is None else parse_bytes(memory)


def _embed_from_files(
    graph: Path,
    folder: Path | None,
    settings: Any,
    memory: str | None,
    force: bool,
    formats: list[str],
    layout: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    workers: int | None,
) -> None:
    """Embed a graph folder from its files."""
    from time import perf_counter

    from clnr.embedding import job
    from clnr.embedding.planning import file_plan
    from clnr.embedding.scoring.baseline_comparison import compare
    from clnr.embedding.store.work_folder import is_trained
    from clnr.errors import ClnrError
    from clnr.experiments.results import without_nan
    from clnr.graph.graph_folder import GraphFolder
    from clnr.support.humanize import duration, plural
    from clnr.support.progress import progress_bar

    opened, bound, first = GraphFolder.open(graph), _bytes(memory), settings.workers.first
    settings = file_plan.for_files(opened, settings, bound, workers)
    if formats:
        raise ClnrError("from files a graph is embedded to Parquet alone: leave out --format")
    if dry_run or folder is None:
        _, planned = file_plan.plan(opened, settings, bound, workers)
        if first:
            print_stdout(json.dumps(planned.to_dict()) if as_json else str(planned))
        return
    began = perf_counter()
    try:
        with progress_bar(quiet or not first) as bar:
            result = job.embed_folder(opened, folder, settings, bound, force=force, layout=layout, bar=bar)
    except KeyboardInterrupt:
        if first and is_trained(folder):
            print_stderr("stopped; training is complete: the same command with --resume goes on with the next block")
        elif first:
            _print_stopped(settings.checkpoint)
        raise typer.Exit(130) from None
    if result is None:
        if first:
            print_stderr(f"{folder} is finished: there is nothing to resume")
        return
    seconds = perf_counter() - began
    compared = compare(result.model.method, result.scores, result.baselines)
    (nodes, dimension), shards = result.z.shape, result.z.shards
    if as_json:
        content = {"nodes": nodes, "dimension": dimension, "shards": shards, "folder": str(folder)}
        scored = {"scores": result.scores, "warnings": result.warnings, "baselines": result.baselines}
        more = {"seconds": round(seconds, 3), "comparison": None if compared is None else compared.sentence}
        print(json.dumps(without_nan({**content, **scored, **more})))
        return
    sizes = f"{plural(nodes, 'node')} in {dimension} dimensions, {plural(shards, 'shard')}"
    out.print(f"{sizes}, {duration(seconds)}: {folder}", style="bold")
    _print_scores("score", result.scores, compared, result.warnings)
    out.print(", ".join(sorted(path.name for path in folder.iterdir())), style="dim")


def _print_stopped(checkpoint: Path | None) -> None:
    if checkpoint is not None and checkpoint.is_file():
        print_stderr(f"stopped; {checkpoint} has the state of training: the same command with --resume continues from it")
    else:
        print_stderr("stopped; there is no checkpoint: --checkpoint-every N saves the state of training every N epochs")


def _print_result(result: Any, folder: Path, seconds: float, as_json: bool, trained: bool) -> None:
    from clnr.embedding.planning.graph_facts import graph_counts, table_warnings
    from clnr.embedding.scoring.baseline_comparison import compare
    from clnr.embedding.scoring.headline_scores import headline_scores
    from clnr.experiments.results import without_nan
    from clnr.support.humanize import duration, plural
    from clnr.tables.ingest_report import dangling_warning, loses_much

    graph, dimension = result.table_graph.graph, int(result.z.shape[1])
    compared = compare(result.model.method, result.scores, result.baselines)
    files = sorted(path.name for path in folder.iterdir())
    if as_json:
        content = {
            "nodes": graph.num_nodes,
            "folder": str(folder),
            "graph": graph_counts(graph),
            "dimension": dimension,
            "seconds": round(seconds, 3),
            "scores" if trained else "scores_of_training": result.scores,
            "baselines": result.baselines,
            "comparison": None if compared is None else compared.sentence,
            "warnings": [*table_warnings(result.table_graph), *result.warnings],
            "files": files,
        }
        print(json.dumps(without_nan(content)))
        return
    out.print(f"{plural(graph.num_nodes, 'node')} in {dimension} dimensions, {duration(seconds)}: {folder}", style="bold")
    report = result.table_graph.ingest_report
    lost = [dangling_warning(report) or ""] if loses_much(report) else []
    if trained:
        _print_scores("score", result.scores, compared, (*lost, *result.warnings))
    else:
        known = ", ".join(f"{score.name} {score.value}" for score in headline_scores(result.scores, {}, dimension))
        out.print(f"scores of the training, before these tables: {known or 'none'}")
        _print_warnings(lost)
    out.print(", ".join(files), style="dim")


def _print_scores(title: str, scores: dict[str, float], compared: Any, warnings: tuple[str, ...]) -> None:
    from clnr.cli import console_tables
    from clnr.embedding.reporting.report_data import format_scores
    from clnr.support.console import Table

    table = Table(title, "value", box=None, pad_edge=False)
    for description, value in format_scores(scores):
        table.add_row(description, value)
    out.print(table)
    if compared is not None:
        out.print(console_tables.baselines(compared))
        out.print(compared.sentence)
    _print_warnings(warning for warning in warnings if compared is None or warning != compared.sentence)


def _print_warnings(warnings: Iterable[str]) -> None:
    for warning in warnings:
        out.print(f"- {warning}", style="yellow")
