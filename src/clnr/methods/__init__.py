"""Every method as one row, its model, and its recipe."""

from __future__ import annotations

from clnr.methods.registry import *  # noqa: F403
