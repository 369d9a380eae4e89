"""For MkDocs: the pages on contributing and changes are the files at the root of the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The root's file in place of the page that only names it; its links begin at the root."""
    name = PAGES.get(page.file.src_uri)
    return markdown if name is None else (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
