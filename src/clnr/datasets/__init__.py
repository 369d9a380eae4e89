"""Data sets by name, their files and their splits."""

from clnr.datasets.catalog import DATASETS, Dataset, find, load, name_of

__all__ = ["DATASETS", "Dataset", "find", "load", "name_of"]
