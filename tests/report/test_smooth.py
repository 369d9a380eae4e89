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
  for (let i = 1; i <= 90; i++) {
    send("pointermove", 80 * Math.sin(i / 8));
    await new Promise(requestAnimationFrame);
  }
  send("pointerup", 0);
  return [...clnr.frames];
}"""


@pytest.mark.slow
@pytest.mark.parametrize("webgl", [True, False])
def test_a_hundred_thousand_nodes_move_smoothly(show, webgl):
    tab = show(large(), webgl=webgl)
    assert tab.evaluate("[clnr.renderer, clnr.count]") == ["webgl" if webgl else "canvas", 100_000]
    worked = tab.evaluate(PAN)
    picked = tab.evaluate("""() => {
      const began = performance.now();
      for (let i = 0; i < 200; i++) clnr.pick(300 + i, 300);
      return (performance.now() - began) / 200;
    }""")
    assert len(worked) >= 40
    assert statistics.median(worked) < 50
    assert picked < 5
    go_to(tab, "node-54321")
    assert tab.evaluate("clnr.selected()") == 54321
