"""An embedding to look at: one HTML file that opens from disk and asks no network for anything."""

from clnr.report.content import Column, Curve, ReportData
from clnr.report.html import page

__all__ = ["Column", "Curve", "ReportData", "page"]
