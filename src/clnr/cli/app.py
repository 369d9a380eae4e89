"""What all commands share: the program and its console."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from clnr.cli.options import write_options
from clnr.errors import command_line, shorten
from clnr.support.arguments import check_choice
from clnr.support.console import Console, printable
from clnr.support.humanize import escape_control
from clnr.version import __version__

if TYPE_CHECKING:
    from clnr.methods import Method

JSON_FORMAT = 2
"""Of what ``--json`` prints; it goes up when a key is removed or means something else, not when one is added."""

PANELS = {
    "Your graph": ("embed", "transform", "similar", "clusters", "export", "report", "ingest", "demo"),
    "Methods and data sets": ("run", "compare", "ls", "recipe", "runs", "env"),
}
"""The commands, in the order of the help."""
COMMANDS = [name for names in PANELS.values() for name in names]


class Program(TyperGroup):
    """The group of all commands."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **named: Any) -> Any:
        with command_line():
            return super().main(args, *others, **named)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            command.format_options = partial(write_options, command)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(100)) for name in names])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-"):
            check_choice("command", args[0], COMMANDS)
        return list(super().parse_args(ctx, args or ["--help"]))


app = typer.Typer(
    cls=Program,
    epilog="Examples: clnr embed --edges edges.csv --out folder; clnr run; clnr run CLNR cora --seeds 20",
    add_completion=False,
    context_settings={"max_content_width": 100},
    pretty_exceptions_enable=False,
    # The help with boxes imports 150 modules more, such as a parser of Markdown.
    rich_markup_mode=None,
)
out = Console(width=None if sys.stdout and sys.stdout.isatty() else 160)

_MESSAGE_CHARACTERS = 1000
OPTIMISTIC = (
    "* paper rule: the probe's step is chosen by test accuracy (optimistic); strict: by validation accuracy, test set read once"
)


def _version(asked: bool) -> None:
    if asked:
        print(f"clnr {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Learn node embeddings of a graph without labels."""


def choose_pair(method: str | None, dataset: str | None) -> tuple[Method, str]:
    """The method and the data set's name that two arguments name; by default CLNR and toy."""
    from clnr import datasets, methods

    return methods.find(method or methods.CLNR.name), datasets.name_of(dataset or "toy")


def print_stderr(text: str) -> None:
    """Print one line on standard error, if there is one."""
    if sys.stderr:
        print(f"clnr: {shorten(escape_control(text), _MESSAGE_CHARACTERS)}", file=sys.stderr)


def print_json(content: Any) -> None:
    """Print what ``--json`` prints, as docs/json.md has it; numbers that JSON cannot write are null."""
    from clnr.experiments.results import without_nan

    versioned = {"format": JSON_FORMAT, **content} if isinstance(content, dict) else content
    print(json.dumps(without_nan(versioned)))


def print_stdout(text: str) -> None:
    """Print lines on standard output."""
    print(printable(text))
