"""Runs: one, many, cached, compared, searched."""
