"""A report of an embedding: one HTML file that opens from disk and loads nothing from the network."""

from clnr.report.content import Column, ComparisonTable, Curve, ReportData, Score
from clnr.report.html import render_html

__all__ = ["Column", "ComparisonTable", "Curve", "ReportData", "Score", "render_html"]
