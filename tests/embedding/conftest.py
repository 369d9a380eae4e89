"""Small tables, and small blocks of graphs in files."""

from __future__ import annotations

import pytest

from clnr.embedding.planning import memory_bound
from clnr.embedding.rows import passes as rows


@pytest.fixture
def small_blocks(monkeypatch):
    """A graph in files has several blocks."""
    monkeypatch.setattr(memory_bound, "_LEAST_BLOCK_ROWS", 50)
    monkeypatch.setattr(rows, "_MOST_NODES", 50)
    monkeypatch.setattr(rows, "BLOCK_STEP", 1)


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"n{i},n{i * 3 % 40}\n" for i in range(40)))
    lines = "".join(f"n{i},{i * i % 17},{'ab'[i % 2]},{'xy'[i % 3 > 0]}\n" for i in range(40))
    (tmp_path / "n.csv").write_text("id,age,kind,label\n" + lines)
    return {"edges": str(tmp_path / "e.csv"), "nodes": str(tmp_path / "n.csv"), "label": "label"}
