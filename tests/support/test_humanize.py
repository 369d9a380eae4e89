from __future__ import annotations

import pytest

from clnr.support.humanize import duration, plural


@pytest.mark.parametrize(("seconds", "expected"), [(3, "3 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")])
def test_a_duration_has_the_unit_that_fits(seconds, expected):
    assert duration(seconds) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "0 nodes"), (1, "1 node"), (1234, "1,234 nodes")])
def test_a_noun_is_singular_or_plural(count, expected):
    assert plural(count, "node") == expected
