"""How many cases a fuzz test tries: few in the ordinary suite, as many as CLNR_FUZZ says in a long run."""

from __future__ import annotations

import os


def examples(default: int) -> int:
    return int(os.environ.get("CLNR_FUZZ", default))
