"""The report of an embedding: its map, and what it shows."""
