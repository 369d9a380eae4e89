from __future__ import annotations

import pytest

from clnr.support.humanize import duration, plural


@pytest.mark.parametrize(("seconds", "expected"), [(3, "3 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")])
def test_a_duration_is_expected_in_its_unit(seconds, said):
    assert duration(seconds) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "0 nodes"), (1, "1 node"), (1234, "1,234 nodes")])
def test_what_is_counted_is_one_or_many(count, expected):
    assert plural(count, "node") == expected
