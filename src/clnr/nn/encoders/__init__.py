"""Encoders: from a view to one row per node. Weights live in a plain dictionary, apart from the formula."""
