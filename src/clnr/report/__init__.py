"""A report of an embedding: one HTML file that opens from disk and loads nothing from the network."""

from clnr.report.html import Column, ComparisonTable, ReportData, Score, render_html

__all__ = ["Column", "ComparisonTable", "ReportData", "Score", "render_html"]
