"""Edges of tables: their ends, weights, times, and those that are left out."""
