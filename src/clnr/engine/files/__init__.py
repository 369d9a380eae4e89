"""Graphs in files: what a step or a layer reads of them."""
