"""The page in odd hands: strangers' words, phones, reports of nearly nothing."""

from __future__ import annotations

import socket
from dataclasses import replace

import numpy as np
import pytest

from clnr.report import Column, render_html
from tests.report.browser import SMALL, at, centre, go_to, selected, settled
from tests.report.made import HOSTILE, bare, report_data

ATTEMPTS = """async (address) => {
  const refused = [];
  try { document.body.innerHTML = "<b>x</b>"; } catch { refused.push("markup"); }
  try { await fetch(address); } catch { refused.push("request"); }
  const image = new Image();
  const failed = new Promise((done) => { image.onerror = done; });
  image.src = address;
  await failed.then(() => refused.push("image"));
  try { eval("1"); } catch { refused.push("eval"); }
  const script = document.createElement("script");
  try { script.textContent = "window.hacked = 1"; } catch { }
  document.body.append(script);
  if (window.hacked === undefined) refused.push("script");
  return refused;
}"""


@pytest.mark.parametrize("named", [False, True])
def test_what_strangers_wrote_is_shown_and_does_not_run(show, named):
    n = len(HOSTILE)
    data = report_data(
        n,
        title=HOSTILE[0],
        sections=[(HOSTILE[0], [(HOSTILE[1], HOSTILE[2])])],
        notes=HOSTILE[:3],
        ids=HOSTILE,
        names=HOSTILE[::-1] if named else (),
        columns=[Column(HOSTILE[0], np.arange(n, dtype=np.int32), HOSTILE), Column(HOSTILE[1], np.zeros(n, np.float32))],
    )
    tab = show(data)
    assert tab.inner_text("h1") == HOSTILE[0]
    for i, name in enumerate(HOSTILE[::-1] if named else HOSTILE):
        tab.mouse.move(*at(tab, i))
        tab.fill("#query", name.strip()[:30])
        tab.keyboard.press("Escape")
        tab.mouse.click(*at(tab, i))
        assert selected(tab) == i
        # Half a pair cannot come back from the browser.
        if "\ud83d" not in name:
            assert tab.evaluate("document.getElementById('chosen').textContent") == name
    assert tab.evaluate("window.hacked") is None
    assert tab.evaluate("document.images.length + document.scripts.length") == 1
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_browser_itself_refuses_other_scripts_markup_and_requests(chromium, tmp_path):
    file = tmp_path / "alone.html"
    file.write_text(render_html(report_data()), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server, chromium.new_context() as context:
        server.settimeout(0.3)
        tab = context.new_page()
        tab.goto(file.as_uri())
        refused = tab.evaluate(ATTEMPTS, f"http://127.0.0.1:{server.getsockname()[1]}/")
        with pytest.raises(TimeoutError):
            server.accept()
    assert refused == ["markup", "request", "image", "eval", "script"]


@pytest.mark.parametrize("hostile", [False, True])
def test_at_a_phones_width_nothing_sticks_out(show, hostile):
    data = report_data(title="Longword" * 20, notes=["x" * 300], sections=[("y" * 90, [("z" * 90, "0" * 90)])])
    if hostile:
        ids = ["W" * 400 + f" {i}" for i in range(60)]
        columns = [*data.columns, Column("C" * 200, np.zeros(60, np.int32), ("N" * 200,))]
        data = replace(data, ids=ids, columns=columns, names=["M" * 400 + f" {i}" for i in range(60)])
    tab = show(data, **SMALL)
    steps = [lambda label=label: tab.select_option("#colour", label=label) for label in ("year", "many")]
    if hostile:
        steps.append(lambda: tab.select_option("#colour", label="C" * 59 + "…"))
    for step in (*steps, lambda: tab.fill("#query", "5"), lambda: tab.press("#query", "Enter")):
        step()
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
    assert selected(tab) >= 0


def test_fingers_tap_and_pinch(show):
    tab = show(report_data(), **SMALL)
    tab.touchscreen.tap(*at(tab, 7))
    assert selected(tab) == 7
    before = tab.evaluate("clnr.view().k")
    x, y = centre(tab)
    wire = tab.context.new_cdp_session(tab)
    for kind, apart in (("touchStart", 30), ("touchMove", 60), ("touchMove", 90), ("touchEnd", None)):
        points = [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        wire.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    settled(tab)
    assert tab.evaluate("clnr.view().k") == pytest.approx(3 * before, rel=0.1)


ODD = {
    "no nodes": bare(0),
    "no nodes but columns": bare(0, columns=[Column("a", np.zeros(0, np.float32)), Column("b", np.zeros(0, np.int32), ("x",))]),
    "one node": bare(1),
    "one place": bare(
        50, columns=[Column("a", np.full(50, np.nan, np.float32)), Column("b", np.full(50, -1, np.int32), ("x",))]
    ),
    "one line": bare(9, points=np.stack([np.arange(9), np.zeros(9)], axis=1).astype(np.float32)),
    "far away": bare(2, points=np.array([[1e30, -1e30], [1e30, 1e30]], np.float32)),
    "one value": bare(3, columns=[Column("a", np.full(3, 5, np.float32))]),
    "no bounds": bare(3, columns=[Column("a", np.array([-np.inf, 0, np.inf], np.float32))]),
    "no names": bare(3, ids=["", "", ""], title="", columns=[Column("", np.zeros(3, np.int32), ("",))]),
}


@pytest.mark.parametrize(
    ("name", "webgl"), [*((name, True) for name in ODD), ("no nodes", False), ("one place", False), ("far away", False)]
)
def test_odd_reports_open(show, name, webgl):
    data = ODD[name]
    tab = show(data, webgl=webgl)
    for i in range(len(data.columns)):
        tab.select_option("#colour", str(i))
    tab.click("#closer")
    tab.click("#home")
    go_to(tab, "node")
    settled(tab)
    view = tab.evaluate("clnr.view()")
    assert all(np.isfinite(value) for value in view.values())
    assert tab.locator("#nothing").is_visible() == (not data.ids)
    if data.ids and data.ids[0]:
        assert selected(tab) == 0
        assert at(tab, 0) == pytest.approx(centre(tab), abs=1)
