from __future__ import annotations

import numpy as np
import pytest

from clnr.evaluation import clusters


def slow(z, labels):
    """The three scores as the paper's appendix writes them, by loops."""
    groups = {c: z[labels == c] for c in np.unique(labels)}
    centre = {c: rows.mean(0) for c, rows in groups.items()}
    silhouettes = []
    for row, own in zip(z, labels, strict=True):
        far = {c: [np.linalg.norm(row - other) for other in rows] for c, rows in groups.items()}
        if len(far[own]) == 1:
            silhouettes.append(0.0)
            continue
        inside = sum(far[own]) / (len(far[own]) - 1)
        nearest = min(np.mean(distances) for c, distances in far.items() if c != own)
        silhouettes.append((nearest - inside) / max(nearest, inside))
    spread = {c: np.mean([np.linalg.norm(row - centre[c]) for row in rows]) for c, rows in groups.items()}
    worst = [max((spread[a] + spread[b]) / np.linalg.norm(centre[a] - centre[b]) for b in groups if b != a) for a in groups]
    between = sum(len(rows) * ((centre[c] - z.mean(0)) ** 2).sum() for c, rows in groups.items())
    within = sum(((rows - centre[c]) ** 2).sum() for c, rows in groups.items())
    count = len(groups)
    return {
        "silhouette": np.mean(silhouettes),
        "davies_bouldin": np.mean(worst),
        "calinski_harabasz": between / within * (len(z) - count) / (count - 1),
    }


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_formulas(seed):
    random = np.random.default_rng(seed)
    labels = np.array([0] * 9 + [1] * 7 + [3] * 5 + [4])
    z = random.standard_normal((len(labels), 4)) + 1.5 * labels[:, None]
    assert clusters(z, labels) == pytest.approx(slow(z, labels))


def test_clear_clusters_score_well():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 10)
    clear = clusters(random.normal(0, 0.01, (30, 3)) + np.eye(3)[labels], labels)
    mixed = clusters(random.normal(0, 1, (30, 3)), labels)
    assert clear["silhouette"] > 0.95 > 0.3 > mixed["silhouette"]
    assert clear["davies_bouldin"] < 0.1 < 1 < mixed["davies_bouldin"]
    assert clear["calinski_harabasz"] > 1000 > 10 > mixed["calinski_harabasz"]
