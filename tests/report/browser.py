"""What tests do with an open page."""

from __future__ import annotations

import io
import time

import pytest

SMALL = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


def until(tab, holds, argument=None):
    """Waits; the driver's own way to wait is refused by the page's policy."""
    end = time.monotonic() + 120
    while not tab.evaluate(holds, argument):
        assert time.monotonic() < end, f"in vain: {holds}"
        time.sleep(0.02)


def settled(tab):
    until(tab, "!clnr.moving()")


def at(tab, i):
    return tab.evaluate("i => clnr.screen(i)", i)


def selected(tab):
    return tab.evaluate("clnr.selected()")


def go_to(tab, text):
    """Search, and take the first that is found."""
    tab.fill("#query", text)
    tab.press("#query", "Enter")


def texts(tab, selector):
    return tab.locator(selector).all_text_contents()


def centre(tab):
    box = tab.locator("#map").bounding_box()
    return [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]


def pixels(tab, selector="#map"):
    """What is seen of an element, values from 0 to 1."""
    image = pytest.importorskip("matplotlib.image")
    return image.imread(io.BytesIO(tab.locator(selector).screenshot()))[..., :3]
