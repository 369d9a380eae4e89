"""Graphs from what users have: files, lists, arrays, data frames, graphs of other libraries."""
