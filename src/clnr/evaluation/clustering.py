"""Clustering scores: how well classes are separated in an embedding."""

from __future__ import annotations

from clnr.graph.csr import Array


def clusters(z: Array, labels: Array) -> dict[str, float]:
    """Three scores of the classes as clusters of the rows of ``z``; needs at least two classes, and more rows than classes.

    The silhouette coefficient (Rousseeuw, 1987; higher is better, at most 1), the Davies-Bouldin index (1979; lower is better)
    and the Calinski-Harabasz score (1974; higher is better).
    """
    from sklearn import metrics

    return {
        "silhouette": float(metrics.silhouette_score(z, labels)),
        "davies_bouldin": float(metrics.davies_bouldin_score(z, labels)),
        "calinski_harabasz": float(metrics.calinski_harabasz_score(z, labels)),
    }
