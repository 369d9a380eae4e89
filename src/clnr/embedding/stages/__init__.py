"""Stages over a graph in files: inputs, read-out and vectors, block by block."""
