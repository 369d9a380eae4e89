"""Workers that share the engine's work: their group, and shared rows."""
