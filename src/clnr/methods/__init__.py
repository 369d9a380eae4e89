"""Every method as one row, its model, and its recipe."""

from clnr.methods.registry import *  # noqa: F403
