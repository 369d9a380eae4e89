"""Graphs from tables: files, queries or data frames, read by DuckDB."""
