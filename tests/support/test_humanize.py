from __future__ import annotations

import pytest

from clnr.support.humanize import duration, gigabytes, parse_bytes, plural


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "under 1 s"), (0.6, "1 s"), (3, "3 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")]
)
def test_a_duration_has_the_unit_that_fits(seconds, expected):
    assert duration(seconds) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "0 nodes"), (1, "1 node"), (1234, "1,234 nodes")])
def test_a_noun_is_singular_or_plural(count, expected):
    assert plural(count, "node") == expected


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4 GB", 4e9),
        ("4GB", 4e9),
        ("512MiB", 2**29),
        ("1.5g", 1.5e9),
        (" 2 TiB ", 2**41),
        ("4", None),
        ("GB", None),
        ("-1 GB", None),
    ],
)
def test_amounts_of_bytes(text, count):
    assert parse_bytes(text) == count


def test_bytes_for_people():
    assert [gigabytes(count) for count in (5_700_000_000, 12_300_000, 300_000, 0)] == ["5.7 GB", "12 MB", "300 kB", "0 kB"]
