"""A command that several processes run: on this machine, by torchrun, or on a Ray cluster."""
