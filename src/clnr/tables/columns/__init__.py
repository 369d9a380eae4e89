"""Columns: what each is, and how it becomes features."""
