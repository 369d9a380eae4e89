"""What a report was drawn from is told by its last line."""

from __future__ import annotations

from clnr.embedding.reporting.report_file import drawing_code


def test_code_in_any_folder_of_the_packages_that_draw_counts():
    names = {path.name for path in drawing_code()}
    assert {"projection.py", "report_data.py", "scoring.py", "job.py", "page.js", "page.css", "html.py"} <= names
    assert not {name for name in names if name.endswith(".pyc")}
