"""A hundred thousand nodes."""

from __future__ import annotations

import statistics

import pytest

from tests.report.browser import go_to
from tests.report.made import large

PAN = """async () => {
  const box = document.getElementById("map").getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const send = (type, dx) => document.getElementById("map").dispatchEvent(
    new PointerEvent(type, { pointerId: 1, clientX: x + dx, clientY: y, bubbles: true, button: 0 }));
  HTMLElement.prototype.setPointerCapture = () => {};
  clnr.frames.length = 0;
  send("pointerdown", 0);
  const shown = [];
  let before = await new Promise(requestAnimationFrame);
  for (let i = 1; i <= 90; i++) {
    send("pointermove", 80 * Math.sin(i / 8));
    const now = await new Promise(requestAnimationFrame);
    shown.push(now - before);
    before = now;
  }
  send("pointerup", 0);
  return { worked: [...clnr.frames], shown };
}"""


@pytest.mark.slow
@pytest.mark.parametrize("webgl", [True, False])
def test_a_hundred_thousand_nodes_move_smoothly(show, webgl, capsys):
    data = large()
    tab = show(data, webgl=webgl)
    tab.set_default_timeout(60_000)
    assert tab.evaluate("[clnr.renderer, clnr.count]") == ["webgl" if webgl else "canvas", 100_000]
    loaded = tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    times = tab.evaluate(PAN)
    worked, shown = (statistics.median(times[name]) for name in ("worked", "shown"))
    picked = tab.evaluate("""() => {
      const began = performance.now();
      for (let i = 0; i < 200; i++) clnr.pick(300 + i, 300);
      return (performance.now() - began) / 200;
    }""")
    with capsys.disabled():
        print(f"\n{tab.evaluate('clnr.renderer')}: loaded in {loaded:.0f} ms, {worked:.1f} ms of work a frame,", end=" ")
        print(f"{shown:.1f} ms from frame to frame, {picked:.2f} ms a pick")
    assert len(times["worked"]) >= 40
    assert worked < 50
    assert picked < 5
    go_to(tab, "node-54321")
    assert tab.evaluate("clnr.selected()") == 54321
