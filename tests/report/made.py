"""Reports for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from clnr.report import Column, ReportData

# What a stranger may have for an id.
HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "<!--<script>window.hacked = 1",
    "javascript:window.hacked=1//",
    "' onfocus='window.hacked=1' autofocus='",
    "$title ${script} {{title}} %s \\u003c",
    "\N{GRINNING FACE}\N{FAMILY}\N{ZERO WIDTH JOINER} e\N{COMBINING ACUTE ACCENT}",
    "\u05e9\u05dc\u05d5\u05dd \u202e\u0645\u0631\u062d\u0628\u0627",
    "line\nbreak\r\ttab \u2028 \u0000 end",
    "half a pair \ud83d",
    "__proto__",
    "long " * 1000,
    "W" * 3000,
)


def report_data(n: int = 60, near: int = 4, seed: int = 0, **changes) -> ReportData:
    """Three clusters; node 0 is linked to nearly all, the last node to none; some values are missing."""
    random = np.random.default_rng(seed)
    code = (np.arange(n) % 3).astype(np.int32)
    points = (np.array([[0, 0], [9, 2], [4, 8]])[code] + random.normal(0, 1, (n, 2))).astype(np.float32)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(n)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :near].astype(np.int32)
    closeness = np.exp(-np.take_along_axis(distance, nearest.astype(np.int64), axis=1)).astype(np.float32)
    nearest[distance[np.arange(n)[:, None], nearest] > 1e8] = -1
    source = np.concatenate([np.zeros(max(n - 2, 0), np.int64), np.arange(max(n - 2, 0))])
    target = np.concatenate([np.arange(1, n - 1), nearest[: max(n - 2, 0), 0]])
    apart = (source != target) & (target != n - 1)
    source, target = source[apart], target[apart]
    matrix = sp.coo_array((np.ones(2 * len(source)), (np.r_[source, target], np.r_[target, source])), shape=(n, n)).tocsr()
    matrix.sort_indices()
    degree = np.diff(matrix.indptr).astype(np.float32)
    year = (1990 + np.arange(n) % 30).astype(np.float32)
    year[::7] = np.nan
    kind = code.copy()
    kind[::10] = -1
    made = ReportData(
        title="A small graph",
        sections=[
            ("The graph", [("nodes", f"{n:,}"), ("edges", f"{matrix.nnz // 2:,}")]),
            ("Scores", [("accuracy", "84.2 %")]),
        ],
        notes=["A sentence that a reader must see."],
        curves=[("loss", [2.0 / (1 + epoch) for epoch in range(50)])],
        ids=[f"node-{i}" for i in range(n)],
        points=points,
        columns=[
            Column("kind", kind, ("red", "green", "blue")),
            Column("year", year),
            Column("degree", degree),
            Column("many", (np.arange(n) % 20).astype(np.int32), tuple(f"group {i}" for i in range(20))),
        ],
        near=nearest,
        closeness=closeness,
        start=matrix.indptr.astype(np.int64),
        links=matrix.indices.astype(np.int32),
    )
    return replace(made, **changes)


def bare(n: int, **changes) -> ReportData:
    """As little as a report can hold: nodes at one place, with nothing known about them."""
    parts = {
        "title": "Bare",
        "sections": [],
        "notes": [],
        "curves": [],
        "ids": [f"node-{i}" for i in range(n)],
        "points": np.zeros((n, 2), np.float32),
        "columns": [],
        "near": np.full((n, 0), -1, np.int32),
        "closeness": np.zeros((n, 0), np.float32),
        "start": np.zeros(n + 1, np.int64),
        "links": np.zeros(0, np.int32),
    }
    return ReportData(**{**parts, **changes})


def large(n: int = 100_000, near: int = 10, links: int = 4) -> ReportData:
    """Many nodes in clusters, neighbours at random."""
    random = np.random.default_rng(0)
    code = random.integers(0, 8, n).astype(np.int32)
    points = (random.normal(0, 8, (8, 2))[code] + random.normal(0, 1.5, (n, 2))).astype(np.float32)
    return bare(
        n,
        title="Large",
        points=points,
        columns=[
            Column("kind", code, tuple(f"kind {i}" for i in range(8))),
            Column("number", random.normal(size=n).astype(np.float32)),
        ],
        near=random.integers(0, n, (n, near)).astype(np.int32),
        closeness=np.sort(random.random((n, near)).astype(np.float32))[:, ::-1],
        start=links * np.arange(n + 1),
        links=random.integers(0, n, links * n).astype(np.int32),
    )
