"""Data sets by name, their files, and their splits."""

from clnr.datasets.catalog import DATASETS, Dataset, find, load
from clnr.datasets.noise import pairs_of, unjoined, with_noise
from clnr.datasets.splits import split_of

__all__ = ["DATASETS", "Dataset", "find", "load", "pairs_of", "split_of", "unjoined", "with_noise"]
