"""Graphs in which every node has 14 neighbours anywhere: of any size, and made without sorting edges."""

from __future__ import annotations

import math

import numpy as np

from clnr.graph.csr import Array

DEGREE = 14


class RegularGraph:
    """Node i has an edge to and from a i + b, modulo the number of nodes, for seven a and b.

    Where that is i itself, or one neighbour twice, there is one fewer: of a few hundred nodes at any size.

    Args:
        nodes: How many.
        seed: Of a and b.
    """

    def __init__(self, nodes: int, seed: int = 0):
        random = np.random.default_rng(seed)
        factors = (each for each in random.integers(2, nodes, 10_000).tolist() if math.gcd(each, nodes) == 1)
        self.nodes = nodes
        self._maps = [(next(factors), int(random.integers(nodes))) for _ in range(DEGREE // 2)]

    def neighbours(self, node: Array) -> tuple[Array, Array]:
        """How many neighbours each of some nodes has, and all of them, in order."""
        ahead = [(a * node + b) % self.nodes for a, b in self._maps]
        back = [pow(a, -1, self.nodes) * ((node - b) % self.nodes) % self.nodes for a, b in self._maps]
        found = np.sort(np.stack([*ahead, *back], 1), 1)
        kept = found != node[:, None]
        kept[:, 1:] &= found[:, 1:] != found[:, :-1]
        return kept.sum(1), found[kept]
