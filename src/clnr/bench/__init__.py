"""Benchmark of this machine: CLNR against plain PyG, on the built-in graph and on growing synthetic graphs."""
