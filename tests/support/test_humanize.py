from __future__ import annotations

import pytest

from clnr.support.humanize import duration, gigabytes, parse_bytes, plural


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (duration, {0: "under 1 s", 0.6: "1 s", 89: "89 s", 600: "10 min", 7200: "2.0 h"}),
        (lambda count: plural(count, "node"), {0: "0 nodes", 1: "1 node", 1234: "1,234 nodes"}),
        (gigabytes, {5_700_000_000: "5.7 GB", 12_300_000: "12 MB", 300_000: "300 kB", 0: "0 kB"}),
        (parse_bytes, {"4 GB": 4e9, "4GB": 4e9, "512MiB": 2**29, "1.5g": 1.5e9, " 2 TiB ": 2**41}),
        (parse_bytes, {"4": None, "GB": None, "-1 GB": None}),
    ],
)
def test_numbers_for_people(call, expected):
    assert {given: call(given) for given in expected} == expected
