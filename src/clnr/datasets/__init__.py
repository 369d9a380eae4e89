"""Data sets by name, their files and their splits."""

from clnr.datasets.catalog import DATASETS, Dataset, find, load
from clnr.datasets.noise import pair_keys, sample_non_edges, with_noise
from clnr.datasets.splits import split_of

__all__ = ["DATASETS", "Dataset", "find", "load", "pair_keys", "sample_non_edges", "split_of", "with_noise"]
