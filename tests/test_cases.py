"""Cases of tests: every pair of values occurs, and every objective has its method in `make test`."""

from __future__ import annotations

import itertools

from clnr.methods import METHODS
from tests.cases import ONE_FOR_EACH_OBJECTIVE, in_tiers, pairs


def test_every_two_values_of_every_two_settings_meet():
    settings = ("abcdefghij", range(4), (None, True, False))
    cases = pairs(*settings)
    for (i, some), (j, others) in itertools.combinations(enumerate(settings), 2):
        assert {(case[i], case[j]) for case in cases} == set(itertools.product(some, others))
    assert len(cases) == len(set(cases)) <= 44
    assert pairs("ab", "xy") == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]


def test_every_objective_has_a_method():
    assert {METHODS[name].objective for name in ONE_FOR_EACH_OBJECTIVE} == {method.objective for method in METHODS.values()}
    assert [each.id for each in in_tiers() if not each.marks] == [name for name in METHODS if name in ONE_FOR_EACH_OBJECTIVE]
    assert [each.id for each in in_tiers(METHODS.values())] == list(METHODS)
