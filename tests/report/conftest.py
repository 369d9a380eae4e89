"""A real Chromium, where there is one."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from clnr.report import render_html
from tests.report.browser import until

# WebGL without a graphics card, and no talk with the world.
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader-webgl", "--enable-unsafe-swiftshader"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"),
]
# Drawing without a card has to read its picture back, and the browser says that this is slow.
DRIVER = "GL Driver Message"
# The page takes WebGL only from a graphics card, unless it is made to; or it is given none.
WEBGL = """
const before = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, options) {
  if (kind !== "webgl") return before.call(this, kind, options);
  return GIVEN ? before.call(this, kind, { ...options, failIfMajorPerformanceCaveat: false }) : null;
};
"""


@pytest.fixture(scope="module")
def chromium():
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("browser tests: playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("browser tests: no Chromium was found")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def show(chromium, tmp_path):
    """Opens a report from disk; whatever the browser complains of or asks for beyond the file fails the test."""
    contexts, complaints = [], []

    def opened(report_data, *, width=1280, height=800, webgl=True, before="", **options):
        file = tmp_path / f"page-{len(contexts)}.html"
        file.write_text(render_html(report_data), encoding="utf-8")
        context = chromium.new_context(viewport={"width": width, "height": height}, **{"reduced_motion": "reduce", **options})
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", lambda message: complaints.append(message.text) if DRIVER not in message.text else None)
        tab.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
        context.on(
            "request", lambda request: complaints.append(f"asked for {request.url}") if request.url != file.as_uri() else None
        )
        tab.add_init_script(WEBGL.replace("GIVEN", str(webgl).lower()) + before)
        tab.goto(file.as_uri())
        until(tab, "window.clnr !== undefined && !clnr.moving()")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
