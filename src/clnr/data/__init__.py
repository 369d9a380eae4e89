"""Data sets by name, their files, and their splits."""

from clnr.data.catalog import DATASETS, Dataset, find, load
from clnr.data.noise import pairs_of, unjoined, with_noise
from clnr.data.splits import split_of

__all__ = ["DATASETS", "Dataset", "find", "load", "pairs_of", "split_of", "unjoined", "with_noise"]
