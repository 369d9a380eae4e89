"""Small tables that several tests embed."""

from __future__ import annotations

import pytest


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"n{i},n{i * 3 % 40}\n" for i in range(40)))
    lines = "".join(f"n{i},{i * i % 17},{'ab'[i % 2]},{'xy'[i % 3 > 0]}\n" for i in range(40))
    (tmp_path / "n.csv").write_text("id,age,kind,label\n" + lines)
    return {"edges": str(tmp_path / "e.csv"), "nodes": str(tmp_path / "n.csv")}
