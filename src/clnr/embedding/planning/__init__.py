"""Before the stages of a job run: what the graph is, what they cost, and whether that fits."""
