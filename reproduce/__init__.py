"""Reproducing the paper: its tables and figures from runs, and tests of its claims."""
