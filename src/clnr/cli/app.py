"""What all commands share: the program, its console, and the words that name a method and a data set."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from clnr import datasets, methods
from clnr.errors import ClnrError
from clnr.methods import Method
from clnr.support.console import Console, shown
from clnr.support.deprecation import renamed
from clnr.support.humanize import shortened, visible
from clnr.version import __version__

OLD_OPTIONS = {
    "--again": "--rerun",
    "--alone": "--standalone",
    "--anyway": "--ignore-memory-check",
    "--as-is": "--cached-only",
    "--older": "--any-version",
    "--over": "--grid",
    "--plan": "--dry-run",
}
OLD_COMMANDS = {"show": "recipe"}


class Program(TyperGroup):
    """Commands and options by today's names; those of before work for one version, with a warning."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = (arg.partition("=") for arg in args)
        words = [f"{renamed('option', option, OLD_OPTIONS)}{equals}{value}" for option, equals, value in given]
        return list(super().parse_args(ctx, [*(renamed("command", word, OLD_COMMANDS) for word in words[:1]), *words[1:]]))


app = typer.Typer(
    cls=Program,
    help="Embeddings of the nodes of a graph, without labels.",
    epilog="Start with: clnr run. Then: clnr run CLNR cora --seeds 20",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(width=None if sys.stdout and sys.stdout.isatty() else 160)

_LONGEST = 1000
OPTIMISTIC = "* the paper's rule lets the test set choose the probe's step; strict reads the test set once"

MethodName = Annotated[str | None, typer.Argument(metavar="METHOD", help="See: clnr ls methods.")]
DatasetName = Annotated[str | None, typer.Argument(metavar="DATASET", help="See: clnr ls datasets.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Precision = Annotated[str, typer.Option(help="Of training: auto (bfloat16 on a GPU, else float32), float32 or bfloat16.")]
Assign = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a hyper-parameter of the recipe.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")]
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


def choose_pair(method: str | None, dataset: str | None) -> tuple[Method, str]:
    if method is not None and method.lower() in datasets.DATASETS:
        raise ClnrError(f"'{method}' is a data set; the method comes first: {dataset or methods.CLNR.name} {method}")
    chosen = methods.CLNR if method is None else methods.find(method)
    return chosen, datasets.find("toy" if dataset is None else dataset).name


def say(text: str) -> None:
    """One line on standard error, if there is one."""
    if sys.stderr:
        print(f"clnr: {shortened(visible(text), _LONGEST)}", file=sys.stderr)


def tell(text: str) -> None:
    """Lines on standard output."""
    print(shown(text))
