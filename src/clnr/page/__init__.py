"""An embedding to look at: one HTML file that opens from disk and asks no network for anything."""

from clnr.page.story import Column, Curve, Story
from clnr.page.write import page

__all__ = ["Column", "Curve", "Story", "page"]
