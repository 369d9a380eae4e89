"""The paper from its record of runs, the runs themselves, and the search for recipes.

python -m reproduce paper                          # every page of docs/paper: make paper
python -m reproduce table 2                        # print one table; figure 3 writes one figure
python -m reproduce runs --record new.csv          # make what a record lacks; after a stop, the same goes on
python -m reproduce search CLNR cora --grid epochs=50,100 --grid temperature=0.3,0.5
"""

from __future__ import annotations

import argparse
import math
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
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m reproduce", description=__doc__, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True)
    paper = commands.add_parser("paper", help="write all tables, figures and claims")
    table = commands.add_parser("table", help="print a table")
    figure = commands.add_parser("figure", help="write a figure")
    making = commands.add_parser("runs", help="make the runs that a record lacks, and add them to it")
    searching = commands.add_parser("search", help="try recipes, and rank them by validation accuracy")
    for command in (paper, table, figure, making):
        command.add_argument("--record", type=Path, default=PAPER / "runs.csv", help="the file of runs")
    table.add_argument("number", type=int, choices=range(1, len(pages.TABLES) + 1))
    figure.add_argument("number", type=int, choices=range(1, len(pages.FIGURES) + 1))
    paper.add_argument("--out", type=Path, default=PAPER, help="a folder")
    figure.add_argument("--out", type=Path, default=Path(), help="a folder")
    making.add_argument("--methods", nargs="+", default=methods.METHODS, help="only these")
    making.add_argument("--datasets", nargs="+", default=datasets.DATASETS, help="only these")
    making.add_argument("--seeds", type=positive, default=math.inf, help="at most so many of each")
    searching.add_argument("method")
    searching.add_argument("dataset")
    searching.add_argument("--grid", action="append", required=True, metavar="KEY=A,B", help="repeat for combinations")
    searching.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of all recipes")
    searching.add_argument("--seeds", type=positive, default=3)
    for command in (making, searching):
        command.add_argument("--device", default="auto", help="cpu or cuda")
        command.add_argument("--precision", default="auto", help="float32 or bfloat16")
    return parser.parse_args()


def make_runs(asked: argparse.Namespace) -> bool:
    chosen = [methods.find(name) for name in asked.methods]
    sets = [datasets.find(name).name for name in asked.datasets]
    needed = [each for each in pages.needs() if each.method in chosen and each.dataset in sets]
    fewer = [each._replace(seeds=min(each.seeds, asked.seeds)) for each in needed]
    return make_missing(asked.record, fewer, asked.device, asked.precision)


def main() -> int:
    """The exit code of a command; a mistake of the user becomes one line and exit code 2."""
    asked = arguments()
    try:
        if asked.command == "search":
            method, dataset = methods.find(asked.method), datasets.name_of(asked.dataset)
            where = {"device": asked.device, "precision": asked.precision}
            print(search.search(method, dataset, asked.set, asked.grid, asked.seeds, **where))
        elif asked.command == "runs":
            return 0 if make_runs(asked) else 2
        elif asked.command == "table":
            print(pages.table(asked.number, Record.read(asked.record)).markdown(), end="")
        elif asked.command == "figure":
            pages.write_figure(asked.number, Record.read(asked.record), asked.out)
        else:
            pages.write_paper(Record.read(asked.record), asked.out)
    except (ClnrError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
