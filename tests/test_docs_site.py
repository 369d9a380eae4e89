"""The documentation site is built as `make docs` builds it: a warning is an error, and nothing is fetched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full
ROOT = Path(__file__).parents[1]


def test_the_site_has_every_page_with_the_api_filled_in_and_nothing_from_elsewhere(tmp_path):
    for package in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(package, reason="the docs extra is not installed: pip install '.[docs]'")
    site = tmp_path / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    # A proxy that is not there: who would fetch something, fails.
    unreachable = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    env = os.environ | unreachable | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    for page in pages:
        assert (site / page.with_name("index.html" if page.name == "README.md" else f"{page.stem}.html")).is_file(), page
    loaded = re.compile(r"<(?:script|img|iframe)[^>]*src=\"?https?:|<link(?![^>]*canonical)[^>]*href=\"?https?:")
    for page in site.rglob("*.html"):
        assert not loaded.search(page.read_text(encoding="utf-8")), page.name
    text = (site / "api.html").read_text(encoding="utf-8")
    assert "fit_transform" in text
    assert ":::" not in text
    assert "&gt;&gt;&gt; from clnr" not in re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL), "an example is no block of code"
    assert "Barlow Twins" in (site / "contributing.html").read_text(encoding="utf-8")
    assert "0.1.0" in (site / "changelog.html").read_text(encoding="utf-8")
