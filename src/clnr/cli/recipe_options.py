"""Hyper-parameters as options of their own, short for ``--set``, and what to say of an option that there is not."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from clnr.errors import ClnrError
from clnr.support.humanize import shorten

SHORT_FORMS = {
    "dimension": "Width of the embedding.",
    "epochs": "Training steps.",
    "hidden": "Width of hidden layers.",
    "layers": "Layers of the encoder.",
    "learning_rate": "Of Adam.",
    "temperature": "Of the contrastive loss.",
    "edge_drop": "Share of edges that a view leaves out.",
    "feature_mask": "Share of features that a view leaves out.",
    "sampled_nodes": "Nodes in the loss of a step; 0 for all.",
    "max_neighbors": "Most neighbours of a node in a sampled step; 0 for all.",
}
"""The keys of recipes that are options; all others are set by ``--set``."""
_DELIMITERS_MESSAGE = "delimiters are found by themselves: leave it out"
_UNNEEDED_OPTIONS = {
    **dict.fromkeys(("--delimiter", "--delim", "--separator", "--sep"), _DELIMITERS_MESSAGE),
    "--encoding": "text is read as UTF-8: convert other files first, such as with iconv",
    "--quote": "quotes are found by themselves: leave it out",
    "--decimal": "decimal commas are found by themselves, where values prove them: leave it out",
}
"""What to say of options that commands for tables have elsewhere."""
_OPTION_CHARACTERS = 80
_PANEL = "Hyper-parameters (short for --set)"


def sets_recipe(command: Callable[..., None]) -> Callable[..., None]:
    """A command with these options; what they give is added to what ``--set`` gives it as ``assign``."""
    parameters = inspect.signature(command, eval_str=True).parameters
    short = {
        key: inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, typer.Option(metavar="VALUE", help=meaning, rich_help_panel=_PANEL)],
        )
        for key, meaning in SHORT_FORMS.items()
    }

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {key: value for key in short if (value := given.pop(key, None)) is not None}
        assigned = given.get("assign") or []
        for key in values:
            if key in (each.partition("=")[0].strip() for each in assigned):
                raise ClnrError(f"{key} is set twice: by {_option(key)} and by --set; leave out one of them")
        command(**given | {"assign": [*assigned, *(f"{key}={value}" for key, value in values.items())] or None})

    signature = inspect.Signature([*parameters.values(), *short.values()])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()} | {"return": None}
    return run


def command_name(context: Any) -> str:
    """The command that is being parsed, with a blank before it; "" if it is none."""
    return "" if context is None or context.parent is None else f" {context.info_name}"


def unknown_option(error: Any) -> str:
    """What to say of an option that a command does not have: the one that was meant, or how to set a hyper-parameter."""
    option, context = shorten(str(error.option_name), _OPTION_CHARACTERS), error.ctx
    parameters = context.command.params if context is not None else []
    known = [word for each in parameters for word in (*each.opts, *each.secondary_opts) if word.startswith("--")]
    name = command_name(context)
    if "--edges" in known and (why := _UNNEEDED_OPTIONS.get(option.casefold())):
        return f"clnr{name} has no option {option}; {why}; see: clnr{name} --help"
    from clnr.methods.recipe import recipe_keys

    sets = {_option(key): f"--set {key}=VALUE" for key in recipe_keys()} if "--set" in known else {}
    others = {word: word for word in (*known, "--help")}
    near = get_close_matches(option.casefold(), (meant := sets | others), n=1, cutoff=0.6)
    hint = f"did you mean {meant[near[0]]}? " if near else ""
    return f"clnr{name} has no option {option}; {hint}see: clnr{name} --help"


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"
