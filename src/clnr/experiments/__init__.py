"""Experiments: one run or many, cached, compared and searched."""
