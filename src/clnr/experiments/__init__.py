"""Experiments: one run or many, cached and compared."""
