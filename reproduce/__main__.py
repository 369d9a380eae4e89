"""The paper from its record of runs, the runs themselves, and the search for recipes.

python -m reproduce paper                          # every page of docs/paper: make paper
python -m reproduce table 2                        # print one table; figure 3 writes one figure
python -m reproduce runs --record new.csv          # make what a record lacks; after a stop, the same goes on
python -m reproduce search CLNR cora --grid epochs=50,100 --grid temperature=0.3,0.5
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from clnr import datasets, methods
from clnr.errors import ClnrError
from reproduce import pages, search
from reproduce.record import PAPER, Record, make_missing


def positive(word: str) -> int:
    """The type of an option that is a positive integer."""
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m reproduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in (
        ("paper", "write all tables, figures and claims"),
        ("table", "print a table"),
        ("figure", "write a figure"),
        ("runs", "make the runs that a record lacks, and add them to it"),
    ):
        command = commands.add_parser(name, help=about)
        command.add_argument("--record", type=Path, default=PAPER / "runs.csv", help="the file of runs")
        if name in ("table", "figure"):
            command.add_argument("number", type=int, choices=range(1, 7 if name == "table" else 5))
        if name in ("paper", "figure"):
            command.add_argument("--out", type=Path, default=PAPER if name == "paper" else Path(), help="a folder")
    command.add_argument("--methods", nargs="+", help="only these")
    command.add_argument("--datasets", nargs="+", help="only these")
    command.add_argument("--seeds", type=positive, help="at most so many of each")
    searching = commands.add_parser("search", help="try recipes, and rank them by validation accuracy")
    searching.add_argument("method")
    searching.add_argument("dataset")
    searching.add_argument("--grid", action="append", required=True, metavar="KEY=A,B", help="repeat for combinations")
    searching.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of all recipes")
    searching.add_argument("--trials", type=positive, help="only so many of the grid, drawn at random")
    searching.add_argument("--seeds", type=positive, default=3)
    for each in (command, searching):
        each.add_argument("--device", default="auto", help="cpu or cuda")
        each.add_argument("--precision", default="auto", help="float32 or bfloat16")
    return parser.parse_args()


def make_runs(asked: argparse.Namespace) -> int:
    batches = pages.needs()
    if asked.methods:
        names = [methods.find(name).name for name in asked.methods]
        batches = [each for each in batches if each.method.name in names]
    if asked.datasets:
        sets = [datasets.find(name).name for name in asked.datasets]
        batches = [each for each in batches if each.dataset in sets]
    batches = [each._replace(seeds=min(each.seeds, asked.seeds or each.seeds)) for each in batches]
    return 2 if make_missing(asked.record, batches, asked.device, asked.precision, print_now) else 0


def search_recipes(asked: argparse.Namespace) -> None:
    method, where = methods.find(asked.method), {"device": asked.device, "precision": asked.precision}
    dataset = datasets.name_of(asked.dataset)
    planned = search.trials(method, dataset, asked.set, asked.grid, asked.trials)
    finished = []
    for trial in search.try_all(method, datasets.load(dataset), planned, asked.seeds, **where):
        print(trial, file=sys.stderr)
        finished.append(trial)
    print(search.outcome(finished))


def print_now(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """The exit code of a command; a mistake of the user becomes one line and exit code 2."""
    asked = arguments()
    try:
        if asked.command == "search":
            search_recipes(asked)
        elif asked.command == "runs":
            return make_runs(asked)
        elif asked.command == "table":
            print(pages.table(asked.number, Record.read(asked.record)).markdown(), end="")
        elif asked.command == "figure":
            pages.write_figure(asked.number, Record.read(asked.record), asked.out)
        else:
            pages.write_paper(Record.read(asked.record), asked.out)
    except ClnrError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
