"""Commands for one's own graph: embed, similar, report."""

from __future__ import annotations

import json
import time
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from clnr import machine, methods
from clnr.cli.app import Json, app, out, say
from clnr.cli.running import Assign, Device, Precision, Quiet, used
from clnr.engine import Engine, choose
from clnr.errors import ClnrError, DataError
from clnr.estimate import duration
from clnr.methods import Method
from clnr.own.checkpoint import Checkpoint
from clnr.own.defaults import default_recipe
from clnr.own.folder import RECIPE, load_folder, save_folder
from clnr.own.forms import FORMS, chosen_forms, ids_of
from clnr.own.learning import SHARE, Outcome, learn_graph
from clnr.own.nearest import nearest
from clnr.own.outlook import Outlook
from clnr.own.story import story, told
from clnr.own.tuning import tune
from clnr.page import page
from clnr.recipe import Recipe, parse
from clnr.run import check_seed
from clnr.session import Bar, first_use, progress_bar
from clnr.tables import Read, read_tables
from clnr.writing import check_folder, whole_folder, write_whole

REPORT = "report.html"

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="What clnr embed wrote.")]


@app.command()
def embed(
    edges: Annotated[str | None, typer.Option(help="A CSV, Parquet or JSON file, a glob of them, or a query.")] = None,
    nodes: Annotated[str | None, typer.Option(help="Likewise, a row a node; without it features come from structure.")] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Folder to write.")] = None,
    model: Annotated[Path | None, typer.Option(help="A folder of before: embed with what it learned, train nothing.")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="With --model: the tables are a graph of their own.")] = False,
    source: Annotated[str | None, typer.Option(help="Column of edges' sources, if it has no usual name.")] = None,
    target: Annotated[str | None, typer.Option(help="That of their targets.")] = None,
    weight: Annotated[str | None, typer.Option(help="That of their weights.")] = None,
    key: Annotated[str | None, typer.Option("--id", help="Column of nodes' ids.")] = None,
    label: Annotated[str | None, typer.Option(help="That of classes: never a feature, only to evaluate.")] = None,
    moment: Annotated[str | None, typer.Option("--time", help="A column of times, which is no feature.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="An edge holds one way only.")] = False,
    method: Annotated[str, typer.Option(help="See: clnr ls methods.")] = methods.CLNR.name,
    assign: Assign = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    hold_out: Annotated[
        float, typer.Option(help="Share of edges that training does not see, to score by; 0 for none.")
    ] = SHARE,
    trials: Annotated[int, typer.Option("--tune", metavar="N", help="Try N recipes by validation first (Optuna).")] = 0,
    every: Annotated[int, typer.Option("--checkpoint-every", metavar="N", help="Keep the state every N epochs.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the state that was kept, if one was.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the folder.")] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Begin even where memory seems too short.")] = False,
    only_plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and stop.")] = False,
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
    if folder is None:
        raise ClnrError("--out FOLDER says where to write; see: clnr embed --help")
    if edges is None and (model is None or nodes is None):
        raise ClnrError("--edges FILE says where the edges are; see: clnr embed --help")
    if every < 0 or trials < 0 or not 0 <= hold_out < 1:
        raise ClnrError("--checkpoint-every and --tune must be 0 or more, and --hold-out from 0 to less than 1")
    forms = chosen_forms(form or [])
    check_seed(seed)
    if resume and (folder / RECIPE).is_file():
        say(f"{folder} is finished: there is nothing to resume")
        return
    check_folder(folder, force)
    engine, chosen = choose(device, precision), methods.find(method)
    changes = used(chosen, parse(assign or []))
    if model is not None and (changes or trials or every or resume or only_plan):
        raise ClnrError("--model trains nothing: --set, --tune, --checkpoint-every, --resume and --plan have no use with it")
    columns = {"source": source, "target": target, "weight": weight, "id": key, "label": label, "time": moment}
    tables: dict[str, Any] = {**columns, "directed": directed or None, "memory": memory}
    began = time.perf_counter()
    with progress_bar(quiet) as bar:
        if model is not None:
            outcome = _with_model(load_folder(model), edges, nodes, tables, alone, engine)
        else:
            read = read_tables(edges, nodes, **tables)
            recipe, choices = default_recipe(chosen, read.graph)
            recipe = recipe.but(**changes)
            outlook = Outlook.of(read, chosen, recipe, choices, engine)
            _tell_plan(outlook, bar)
            if only_plan:
                return
            if not anyway:
                outlook.check()
            if trials:
                recipe = tune(read, chosen, recipe, seed, engine, trials, hold_out, changes, bar.remark)
            outcome = _train(read, chosen, recipe, seed, engine, hold_out, folder, every, resume, bar)
        if report:
            bar.remark("drawing the map for the report")
        _write(outcome, folder, forms, report)
    _checkpoint(folder).unlink(missing_ok=True)
    _tell_outcome(outcome, folder, time.perf_counter() - began, as_json)


def _with_model(
    kept: Outcome, edges: str | None, nodes: str | None, tables: dict[str, Any], alone: bool, engine: Engine
) -> Outcome:
    """New tables embedded with what was learned: as a part of the graph of before, or alone."""
    if kept.read.encoding is None:
        raise DataError(
            "this model was fitted on a graph in Python, not on tables; use NodeEmbedder.load(...).transform(graph)"
        )
    earlier = {"encoding": kept.read.encoding} if alone else {"onto": kept.read}
    read = read_tables(edges, nodes, **tables, **earlier)
    z = kept.trained.embed(read.graph, engine)
    remarks = dict.fromkeys([*kept.remarks, "loss and scores are of the training, from before these tables"])
    return Outcome(kept.trained, read, z, kept.losses, kept.scores, tuple(remarks))


def _train(
    read: Read,
    method: Method,
    recipe: Recipe,
    seed: int,
    engine: Engine,
    share: float,
    folder: Path,
    every: int,
    resume: bool,
    bar: Bar,
) -> Outcome:
    keeper = None
    path = _checkpoint(folder)
    if every or resume:
        about = {
            "graph": read.graph.digest,
            "method": method.name,
            "seed": seed,
            "recipe": recipe.to_dict(),
            "hold_out": share,
            "engine": engine.name,
            "precision": engine.precision,
            "versions": machine.versions(),
        }
        keeper = Checkpoint(path, every or recipe.epochs + 1, about, resume)
        if resume:
            bar.remark(f"going on from {path}" if path.is_file() else f"there is no {path}, so that it starts afresh")
    epochs = recipe.epochs if method.objective else 0
    try:
        with first_use(engine, bar), bar.training(f"{method.name} on {read.graph.num_nodes:,} nodes", epochs) as watch:
            return learn_graph(read, method, recipe, seed, engine, share=share, watch=watch, keeper=keeper)
    except KeyboardInterrupt:
        kept = f"what {path} holds is kept: the same command with --resume goes on from there" if path.is_file() else None
        say(f"stopped; {kept or 'nothing was kept: --checkpoint-every N keeps the state every N epochs'}")
        raise typer.Exit(130) from None


def _checkpoint(folder: Path) -> Path:
    return folder.absolute().with_name(f"{folder.absolute().name}.checkpoint")


def _write(outcome: Outcome, folder: Path, forms: list[str], report: bool) -> None:
    with whole_folder(folder) as part:
        save_folder(outcome, part)
        for form in forms:
            name, write = FORMS[form]
            write(outcome.read.graph, outcome.z, part / name)
        if report:
            write_whole(part / REPORT, page(story(outcome, folder.absolute().name)).encode())


def _tell_plan(outlook: Outlook, bar: Bar) -> None:
    bar.remark("; ".join(f"{name}: {value}" for name, value in outlook.facts.items()))
    for line in outlook.done:
        bar.remark(f"- {line}")
    for choice in outlook.choices:
        bar.remark(f"- {choice.key}={choice.value}: {choice.reason}")
    seconds, memory = outlook.cost
    bar.remark(f"about {duration(seconds)} to train, and {memory / 2**30:.1f} GiB of memory: a rough guess")


def _tell_outcome(outcome: Outcome, folder: Path, seconds: float, as_json: bool) -> None:
    files = sorted(path.name for path in folder.iterdir())
    graph = outcome.read.graph
    if as_json:
        facts = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        shape = {"dimension": int(outcome.z.shape[1]), "seconds": round(seconds, 3)}
        print(json.dumps({"folder": str(folder), **facts, **shape, "scores": outcome.scores, "files": files}))
        return
    out.print(f"{graph.num_nodes:,} nodes in {outcome.z.shape[1]} dimensions, {duration(seconds)}: {folder}", style="bold")
    table = Table("score", "value", box=None, pad_edge=False)
    for name, value in told(outcome.scores):
        table.add_row(name, value)
    out.print(table)
    for remark in outcome.remarks:
        out.print(f"- {remark}", style="dim")
    out.print(", ".join(files), style="dim")


@app.command()
def similar(
    folder: Folder,
    node: Annotated[str, typer.Argument(metavar="ID", help="Of a node.")],
    k: Annotated[int, typer.Option("-k", help="How many.")] = 10,
    approximate: Annotated[bool, typer.Option("--approximate", help="By an index: for millions of nodes (usearch).")] = False,
    as_json: Json = False,
) -> None:
    """The nodes most similar to a node, by the cosine of their embeddings."""
    if k < 1:
        raise ClnrError(f"-k must be at least 1, not {k}")
    outcome = load_folder(folder)
    graph = outcome.read.graph
    ids = [str(each) for each in ids_of(graph).tolist()]
    place = {name: i for i, name in enumerate(ids)}
    if node not in place:
        raise DataError(f"{folder}: there is no node '{node}'; such are {', '.join(repr(each) for each in ids[:3])}")
    i = place[node]
    near = nearest(outcome.z, [i], k, approximate)
    linked = {*_joined(graph.incoming, i), *_joined(graph.outgoing, i)}
    found = [
        {"id": ids[j], "cosine": round(float(cosine), 6), "linked": int(j) in linked, **_label(outcome, int(j))}
        for j, cosine in zip(near.nodes[0], near.cosine[0], strict=True)
    ]
    if as_json:
        print(json.dumps(found))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("id", "cosine", "linked", *(["label"] if graph.labels is not None else [])):
        table.add_column(name)
    for row in found:
        linked_too = "yes" if row["linked"] else ""
        table.add_row(str(row["id"]), f"{row['cosine']:.4f}", linked_too, *([row["label"] or ""] if "label" in row else []))
    out.print(table)


def _joined(edges: Any, i: int) -> list[int]:
    return edges.nodes[edges.start[i] : edges.start[i + 1]].tolist()


def _label(outcome: Outcome, j: int) -> dict[str, Any]:
    labels, classes = outcome.read.graph.labels, outcome.read.classes
    if labels is None:
        return {}
    code = int(labels[j])
    return {"label": None if code < 0 else classes[code] if code < len(classes) else str(code)}


@app.command(name="report")
def report_command(
    folder: Folder,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the report of an embedding anew: one HTML file with facts, scores and a map to explore."""
    outcome = load_folder(folder)
    path = write_whole(folder / REPORT, page(story(outcome, folder.absolute().name)).encode())
    print(path)
    if show and not webbrowser.open(path.absolute().as_uri()):
        say(f"no browser could be opened; open {path.absolute()}")
