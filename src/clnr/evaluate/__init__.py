"""How good an embedding is, by what others can do with it."""

from clnr.evaluate.linear import Probe, probe

__all__ = ["Probe", "probe"]
