"""How torch's threads wait for work; to be said before torch is imported."""

from __future__ import annotations

import os


def wait_asleep() -> None:
    """Let torch's threads fall asleep soon where they have nothing to do, unless the user says how they wait.

    By default they try for milliseconds, on processors that our own loops or other programs want: on 16 cores, an epoch of CLNR
    on Cora takes twice as long. OpenMP reads this when torch is imported; later it has no effect.
    """
    if os.environ.keys().isdisjoint({"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}):
        os.environ |= {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
