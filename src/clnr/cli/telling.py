"""Commands that only tell: ls, show, runs, env."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from clnr import data, methods, report
from clnr.cli.app import OPTIMISTIC, DatasetName, Json, MethodName, app, choose_pair, out, say, tell
from clnr.engine import DEVICES
from clnr.errors import RecipeError, UnknownName
from clnr.record import Record
from clnr.results import without_nan
from clnr.run import shelf


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
        print(json.dumps(report.listed(what.lower())))
    else:
        out.print(tables[what.lower()]())


@app.command()
def show(method: MethodName = None, dataset: DatasetName = None, as_json: Json = False) -> None:
    """Show a recipe: every number, what it means, and where it comes from."""
    chosen, name = choose_pair(method, dataset)
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
        out.print(OPTIMISTIC, style="dim")
    else:
        say(f"no such run in {record.path} yet; make one with: clnr run")


@app.command()
def env(as_json: Json = False) -> None:
    """Print what to paste into a bug report: versions, machine, places."""
    facts = report.environment()
    if as_json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            tell(f"{name + ':':<17}{value}")
