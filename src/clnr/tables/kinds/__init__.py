"""Several kinds of nodes and edges, each with a table of its own."""
