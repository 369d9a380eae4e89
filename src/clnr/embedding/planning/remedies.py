"""What to run where a job does not fit in memory: found by the plan itself, and printed as a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from clnr.embedding.planning.job_plan import JobSizes
from clnr.errors import OutOfMemory, command_with
from clnr.support.humanize import gigabytes, option

SMALL_BYTES = 2.5e8
"""A graph that takes no more beside Python and torch is small: no setting would change much, and it is never refused."""
# Hyper-parameters that need less memory, in the order in which they are tried.
_SMALLER = {"structure": 0, "max_neighbors": 10, "hidden": 64, "dimension": 64, "sampled_nodes": 256, "walk_columns": 0}


class Remedy(NamedTuple):
    """Other values of options or hyper-parameters, with which a job fits in memory."""

    options: dict[str, str]
    recipe: dict[str, Any]

    def __str__(self) -> str:
        options = [option(name, value) for name, value in self.options.items()]
        return " ".join([*options, *(f"--set {key}={value}" for key, value in self.recipe.items())])


def remedies(sizes: JobSizes, fits: Callable[[Any], bool]) -> list[Remedy]:
    """Fewer workers; smaller hyper-parameters, as few as possible. Each does by itself."""
    found, recipe, method = [], sizes.recipe, sizes.settings.method
    for count in range(sizes.local_workers - 1, 0, -1):
        if fits(replace(sizes, workers=count, local_workers=count)):
            found.append(Remedy({"--workers": str(count)}, {}))
            break
    smaller: dict[str, Any] = {}
    for key, value in _SMALLER.items():
        # 0 neighbours or sampled nodes are all of them.
        if key not in method.keys or not (getattr(recipe, key) > value or getattr(recipe, key) == 0 < value):
            continue
        smaller[key] = value
        if fits(sizes.with_recipe(recipe.but(**smaller))):
            for other in [*smaller][:-1]:
                rest = {name: each for name, each in smaller.items() if name != other}
                smaller = rest if fits(sizes.with_recipe(recipe.but(**rest))) else smaller
            return [*found, Remedy({}, smaller)]
    return found


def refusal(what: str, needed: float, of_program: float, usable: str, found: Sequence[Remedy], otherwise: str) -> OutOfMemory:
    """The error that says how much memory a job needs, what would do, and the whole command with the first of it."""
    text = f"{what} needs about {gigabytes(needed)}, of which Python and torch take {gigabytes(of_program)}, and {usable}"
    if not found:
        return OutOfMemory(f"{text}; {otherwise}")
    offers = f"{text}; this would do: {', or '.join(map(str, found))}"
    command = command_with(*found[0])
    return OutOfMemory(offers) if command is None else OutOfMemory(f"{offers}; run:", command)
