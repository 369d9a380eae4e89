"""Augmentations of a graph, and the centralities and diffusion that they use."""
