from __future__ import annotations

from clnr.support.progress import Tenths


def test_tenths_are_told_once():
    said = []
    tenths = Tenths(said.append, "work", 40)
    for count in (0, 1, 4, 7, 8, 30, 40):
        tenths.done(count)
    assert said == ["work: 0 %", "work: 10 %", "work: 20 %", "work: 75 %", "work: 100 %"]
