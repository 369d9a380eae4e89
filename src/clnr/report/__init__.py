"""A report of an embedding: one HTML file that opens from disk and loads nothing from the network."""

from clnr.report.content import Column, Curve, ReportData
from clnr.report.html import render_html

__all__ = ["Column", "Curve", "ReportData", "render_html"]
