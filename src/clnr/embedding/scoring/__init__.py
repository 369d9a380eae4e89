"""Scores of an embedding, and of baselines beside it."""
