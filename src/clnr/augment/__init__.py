"""What a view does to a graph, and what that needs to know of it."""
