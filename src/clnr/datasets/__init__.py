"""Data sets by name, their files and their splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clnr.datasets.catalog import DATASETS, Dataset, find, load, name_of
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    from clnr.datasets.noise import pair_keys, sample_non_edges, with_noise
    from clnr.datasets.splits import split_of
else:
    pair_keys, sample_non_edges, with_noise = (
        lazy("clnr.datasets.noise", name) for name in ("pair_keys", "sample_non_edges", "with_noise")
    )
    split_of = lazy("clnr.datasets.splits", "split_of")

__all__ = ["DATASETS", "Dataset", "find", "load", "name_of", "pair_keys", "sample_non_edges", "split_of", "with_noise"]
