"""Workers that share the engine's work: their group, shared rows, and NT-Xent of shared rows."""
