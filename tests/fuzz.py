"""How many cases the fuzz tests try: few in `make test`, as many as CLNR_FUZZ says where it is set."""

from __future__ import annotations

import os


def examples(default: int) -> int:
    return int(os.environ.get("CLNR_FUZZ", default))
