"""Columns of nodes as features: their types, and what is learned of their values."""
