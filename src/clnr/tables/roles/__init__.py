"""Which column of a table holds what."""
