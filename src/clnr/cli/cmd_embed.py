"""Your own graph: embed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from clnr import methods
from clnr.cli.app import Json, app, out, say, tell
from clnr.cli.cmd_run import Assign, Device, Precision, Quiet, used
from clnr.embedding.artifact import OWNED_FILES, RECIPE, REPORT, differences, load_folder, save_folder
from clnr.embedding.defaults import default_recipe
from clnr.embedding.export import FORMS, check_forms, chosen_forms
from clnr.embedding.fitting import SHARE, EmbeddingResult, grown, learn_graph
from clnr.embedding.preflight import Preflight, done_about, facts_of, in_a_line
from clnr.embedding.report_data import html, told
from clnr.embedding.tuning import tune
from clnr.engine import Engine, choose
from clnr.errors import ClnrError, DataError
from clnr.experiments.results import without_nan
from clnr.experiments.run import check_seed
from clnr.experiments.runner import first_use
from clnr.methods import Method
from clnr.methods.recipe import Recipe, parse
from clnr.support import environment
from clnr.support.atomic_io import atomic_folder, check_folder, reserve_folder, resolve_path
from clnr.support.console import Table
from clnr.support.humanize import duration, plural
from clnr.support.progress import Bar, progress_bar
from clnr.tables import TableGraph, read_tables
from clnr.training.checkpoint import Checkpoint, check_checkpoint, checkpoint_of, remove_checkpoint


@app.command()
def embed(
    edges: Annotated[str | None, typer.Option(help="A CSV, Parquet or JSON file, or a glob of them.")] = None,
    nodes: Annotated[str | None, typer.Option(help="Likewise, a row a node; without it features come from structure.")] = None,
    edges_query: Annotated[str | None, typer.Option(metavar="SQL", help="Instead of --edges, one SELECT.")] = None,
    nodes_query: Annotated[str | None, typer.Option(metavar="SQL", help="Instead of --nodes, likewise.")] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Folder to write.")] = None,
    model: Annotated[Path | None, typer.Option(help="A folder of before: embed with what it learned, train nothing.")] = None,
    alone: Annotated[bool, typer.Option("--standalone", help="With --model: the tables are a graph of their own.")] = False,
    source: Annotated[str | None, typer.Option(help="Column of edges' sources, if it has no usual name.")] = None,
    target: Annotated[str | None, typer.Option(help="That of their targets.")] = None,
    weight: Annotated[str | None, typer.Option(help="That of their weights.")] = None,
    key: Annotated[str | None, typer.Option("--id", help="Column of nodes' ids.")] = None,
    label: Annotated[str | None, typer.Option(help="That of classes: never a feature, only to evaluate.")] = None,
    name: Annotated[str | None, typer.Option(help="That of names, to show and search; still a feature if it was one.")] = None,
    moment: Annotated[str | None, typer.Option("--time", help="A column of times, which is no feature.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="An edge holds one way only.")] = False,
    method: Annotated[str, typer.Option(help="See: clnr ls methods.")] = methods.CLNR.name,
    assign: Assign = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    hold_out: Annotated[float, typer.Option(help="Share of edges kept from training to score by; 0 for none.")] = SHARE,
    trials: Annotated[int, typer.Option("--tune", metavar="N", help="Try N recipes by validation first (Optuna).")] = 0,
    every: Annotated[int, typer.Option("--checkpoint-every", metavar="N", help="Keep the state every N epochs.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the state that was kept, if one was.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a folder of before.")] = False,
    anyway: Annotated[bool, typer.Option("--ignore-memory-check", help="Begin even where memory seems too short.")] = False,
    only_plan: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")] = False,
    form: Annotated[list[str] | None, typer.Option("--format", help=f"Beside Parquet: {', '.join(FORMS)}.")] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    memory: Annotated[str | None, typer.Option(help="A bound on reading tables, as '4 GB'.")] = None,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Embed your own graph: from tables of edges and nodes to vectors, a model, a report.

    With --model, tables are added to the graph of before and embedded with what was learned then.
    """
    given = {"edges": edges, "nodes": nodes, "edges_query": edges_query, "nodes_query": nodes_query}
    if not (edges or edges_query or (model and (nodes or nodes_query))):
        raise ClnrError("--edges FILE says where the edges are; see: clnr embed --help")
    for option, number in (("--checkpoint-every", every), ("--tune", trials)):
        if number < 0:
            raise ClnrError(f"{option} must be 0 or more, not {number}")
    if not 0 <= hold_out < 1:
        raise ClnrError(f"--hold-out must be from 0 to less than 1, not {hold_out:g}")
    check_seed(seed)
    forms, engine, chosen = chosen_forms(form or []), choose(device, precision), methods.find(method)
    if chosen.supervised and model is None and nodes is None:
        raise _untaught(chosen)
    changes = used(chosen, parse(assign or []))
    if model is not None and (changes or trials or every or resume or only_plan):
        raise ClnrError("--model trains nothing: --set, --tune, --checkpoint-every, --resume and --dry-run have no use with it")
    ends = {"source": source, "target": target, "weight": weight}
    columns = {**ends, "id": key, "label": label, "time": moment, "names": name}
    tables: dict[str, Any] = {**given, **columns, "directed": directed or None, "memory": memory}
    if only_plan:
        _plan(read_tables(**tables), chosen, changes, engine, as_json)
        return
    if folder is None:
        raise ClnrError("--out FOLDER says where to write; see: clnr embed --help")
    began = time.perf_counter()
    with reserve_folder(folder, OWNED_FILES), progress_bar(quiet) as bar:
        finished = resume and (folder / RECIPE).is_file()
        if force or not finished:
            check_folder(folder, force, OWNED_FILES)
        checkpoint = checkpoint_of(folder)
        if every or resume:
            check_checkpoint(checkpoint)
        if model is not None:
            outcome = _with_model(load_folder(model), tables, alone, engine, bar)
        else:
            read = read_tables(**tables)
            recipe, preflight = _prepared(read, chosen, changes, engine)
            if finished and _is_finished(folder, read, chosen, None if trials else recipe, seed, name, force):
                remove_checkpoint(checkpoint)
                say(f"{folder} is finished: there is nothing to resume")
                return
            check_forms(forms, read.graph)
            for line in preflight.told:
                bar.remark(line)
            if not anyway:
                preflight.check()
            if trials:
                recipe = tune(read, chosen, recipe, seed, engine, trials, hold_out, changes, bar.remark)
            outcome = _train(read, chosen, recipe, seed, engine, hold_out, checkpoint, every, resume, bar)
        if report:
            bar.remark("drawing the map for the report")
        _write(outcome, folder, force, forms, report)
        remove_checkpoint(checkpoint)
    _tell_outcome(outcome, folder, time.perf_counter() - began, as_json, trained=model is None)


def _prepared(read: TableGraph, method: Method, changes: Mapping[str, Any], engine: Engine) -> tuple[Recipe, Preflight]:
    """The recipe, and what is to be expected of it."""
    if method.supervised and read.graph.labels is None:
        raise _untaught(method)
    recipe, choices = default_recipe(method, read.graph)
    recipe = recipe.but(**changes)
    return recipe, Preflight.of(read, method, recipe, choices, engine)


def _untaught(method: Method) -> DataError:
    return DataError(
        f"{method.name} is supervised, and no column has labels to teach it by; name one of --nodes with --label, or choose a "
        f"method that needs none, as {methods.CLNR.name}"
    )


def _plan(read: TableGraph, method: Method, changes: Mapping[str, Any], engine: Engine, as_json: bool) -> None:
    _, preflight = _prepared(read, method, changes, engine)
    tell(json.dumps(preflight.to_dict()) if as_json else "\n".join(preflight.told))


def _is_finished(
    folder: Path, read: TableGraph, method: Method, recipe: Recipe | None, seed: int, name: str | None, force: bool
) -> bool:
    """Whether a folder is what was asked for, so that there is nothing to do; if it is not, it must be free to overwrite."""
    kept = load_folder(folder)
    differs = differences(kept, read, method, recipe, seed)
    if name is not None and read.ingest_report.names != kept.read.ingest_report.names:
        differs.append(f"its nodes are called otherwise, which clnr report {folder} --name {name} changes")
    if differs and not force:
        raise DataError(f"{folder} is finished, but of something else: {'; '.join(differs)}; overwrite it with --force")
    return not differs


def _with_model(kept: EmbeddingResult, tables: dict[str, Any], alone: bool, engine: Engine, bar: Bar) -> EmbeddingResult:
    """New tables embedded with what was learned: as a part of the graph of before, or alone."""
    if kept.read.feature_encoder is None:
        raise DataError("this model was fitted on a graph in Python, not on tables: NodeEmbedder.load(...).transform(graph)")
    earlier = {"feature_encoder": kept.read.feature_encoder} if alone else {"base": kept.read}
    read = read_tables(**tables, **earlier)
    bar.remark(in_a_line(facts_of(read.graph)))
    if not alone:
        bar.remark(f"- {plural(read.graph.num_nodes - kept.read.graph.num_nodes, 'new node')}")
    for line in done_about(read):
        bar.remark(f"- {line}")
    return grown(kept, read, engine)


def _train(
    read: TableGraph,
    method: Method,
    recipe: Recipe,
    seed: int,
    engine: Engine,
    share: float,
    path: Path,
    every: int,
    resume: bool,
    bar: Bar,
) -> EmbeddingResult:
    keeper = None
    if every or resume:
        about = {
            "tables": read.graph.digest,
            "method": method.name,
            "seed": seed,
            "recipe": recipe.to_dict(),
            "hold_out": share,
            "engine": engine.name,
            "precision": engine.precision,
            "versions": environment.versions(),
        }
        keeper = Checkpoint(path, every or recipe.epochs + 1, about, resume)
        if resume:
            bar.remark(f"going on from {path}" if path.is_file() else f"there is no {path}, so that it starts afresh")
    epochs = recipe.epochs if method.objective else 0
    try:
        with first_use(engine, bar), bar.training(f"{method.name} on {read.graph.num_nodes:,} nodes", epochs) as progress:
            return learn_graph(read, method, recipe, seed, engine, share=share, progress=progress, checkpoint=keeper)
    except KeyboardInterrupt:
        kept = f"what {path} holds is kept: the same command with --resume goes on from there" if path.is_file() else None
        say(f"stopped; {kept or 'nothing was kept: --checkpoint-every N keeps the state every N epochs'}")
        raise typer.Exit(130) from None


def _write(outcome: EmbeddingResult, folder: Path, force: bool, forms: list[str], report: bool) -> None:
    page = html(outcome, resolve_path(folder).name) if report else None
    with atomic_folder(folder, force, OWNED_FILES) as part:
        save_folder(outcome, part)
        for form in forms:
            name, write = FORMS[form]
            write(outcome.read.graph, outcome.z, part / name)
        if page is not None:
            (part / REPORT).write_bytes(page)


def _tell_outcome(outcome: EmbeddingResult, folder: Path, seconds: float, as_json: bool, trained: bool) -> None:
    files = sorted(path.name for path in folder.iterdir())
    graph = outcome.read.graph
    remarks = [*done_about(outcome.read), *outcome.remarks]
    if as_json:
        scores = {"scores" if trained else "scores_of_training": outcome.scores}
        size = {"dimension": int(outcome.z.shape[1]), "seconds": round(seconds, 3)}
        told_all = {"folder": str(folder), "graph": facts_of(graph), **size, **scores, "remarks": remarks, "files": files}
        print(json.dumps(without_nan({"nodes": graph.num_nodes, **told_all})))
        return
    head = f"{plural(graph.num_nodes, 'node')} in {outcome.z.shape[1]} dimensions, {duration(seconds)}: {folder}"
    out.print(head, style="bold")
    table = Table("score" if trained else "score of the training", "value", box=None, pad_edge=False)
    for name, value in told(outcome.scores):
        table.add_row(name, value)
    out.print(table)
    for remark in outcome.remarks:
        out.print(f"- {remark}", style="dim")
    out.print(", ".join(files), style="dim")
