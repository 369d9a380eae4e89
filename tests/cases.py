"""The cases of a test: pairs of settings in place of their product; one method for each objective in `make test`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from clnr.methods import METHODS, Method

# The first of each objective that is simple, and the default.
ONE_FOR_EACH_OBJECTIVE = ("CLNR", "SVD-mix", "GAE", "VGAE", "DGI", "CCA-SSG", "BGRL", "GCN", "CLNR-mix")


def in_tiers(methods: Iterable[str] | Iterable[Method] = METHODS) -> list[Any]:
    """Each of some methods, or of their names, as a parameter: one for each objective, and the others marked ``full``."""
    named = [(each.name if isinstance(each, Method) else each, each) for each in methods]
    return [pytest.param(each, id=name, marks=tier_of(name)) for name, each in named]


def tier_of(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in ONE_FOR_EACH_OBJECTIVE else [pytest.mark.full]


def pairs(*settings: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Cases among which every two values of every two settings meet; each takes the most pairs that have not met yet."""
    values = [list(each) for each in settings]
    cases = list(itertools.product(*(range(len(each)) for each in values)))
    met_by = {case: set(itertools.combinations(enumerate(case), 2)) for case in cases}
    open_pairs, chosen = set().union(*met_by.values()), []
    while open_pairs:
        best = max(cases, key=lambda case: len(met_by[case] & open_pairs))
        open_pairs -= met_by[best]
        chosen.append(tuple(each[place] for each, place in zip(values, best, strict=True)))
    return chosen
