"""Rows of all nodes: of a graph in memory, or made in blocks of one in files."""
