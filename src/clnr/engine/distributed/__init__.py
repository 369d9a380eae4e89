"""Workers that share the engine's work."""
