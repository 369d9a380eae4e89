"""The machine: memory, processors, paths, versions."""
