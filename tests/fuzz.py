"""How many cases a fuzz test tries."""

from __future__ import annotations

import os


def examples(default: int) -> int:
    return int(os.environ.get("CLNR_FUZZ", default))
