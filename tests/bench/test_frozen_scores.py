from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.frozen_scores import GRAPHS, SCORES, WAYS, Trial, compare, main

from clnr import load


def made(seed, fall=0, at=GRAPHS):
    draw, cells = np.random.default_rng(seed), [(graph, way, each) for graph in GRAPHS for way in WAYS for each in range(3)]
    scores = [{"drawn": 0} | {name: 80 + draw.normal(0, 0.2) - fall * (cell[0] in at) for name in SCORES} for cell in cells]
    return [dict(zip(("graph", "way", "seed"), cell, strict=True)) | each for cell, each in zip(cells, scores, strict=True)]


def test_falls_are_found_and_noise_is_not():
    assert sum(any(fell for _, fell in compare(made(seed), made(100 + seed))) for seed in range(30)) <= 5
    for fall, at, where in ((3, ["github"], "github"), (0.6, GRAPHS, "mean")):
        rows = compare(made(0, fall, at), made(1))
        assert all(fell for (_, _, graph, *_), fell in rows if graph == where)


def test_what_is_held_out_is_not_seen_and_non_edges_are_none():
    graph, trial = load("toy"), Trial.of(load("toy"), 1)
    seen, split, linked, apart = trial
    whole, left = graph.to_scipy(), seen.to_scipy()
    assert linked.shape == apart.shape == (2, (whole.nnz - left.nnz) // 2)
    assert [whole[*linked].min(), left[*linked].max(), whole[*apart].max()] == [1, 0, 0]
    assert sorted(np.concatenate(split)) == [*range(graph.num_nodes)]
    assert trial.digest() == Trial.of(graph, 1).digest() != Trial.of(graph, 2).digest()


def test_scores_are_measured_once_and_compared(monkeypatch, tmp_path):
    log, earlier = tmp_path / "now.jsonl", tmp_path / "earlier.jsonl"
    words = f"frozen_scores --graphs toy --ways quick --seeds 2 --device cpu --threads 1 --log {log}".split()
    monkeypatch.setattr("sys.argv", words)
    main()
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(each["accuracy"] > 50 and each["link_auc"] > 60 for each in records)
    for better, code in ((0, 0), (5, 1)):
        earlier.write_text("".join(json.dumps(each | {"link_auc": each["link_auc"] + better}) + "\n" for each in records))
        monkeypatch.setattr("sys.argv", [*words, "--against", str(earlier)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code, len(log.read_text().splitlines())) == (code, 2)
