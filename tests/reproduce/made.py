"""Runs that were never trained, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from reproduce.record import Batch, Run


def made(batch: Batch, seed: int = 0, **changes: Any) -> Run:
    values = {"method": batch.method.name, "dataset": batch.dataset, "seed": seed, "changed": batch.changed}
    values |= {"strict": 80.0 + seed, "paper": 81.0 + seed, "validation": 79.0}
    values |= {"alignment": 0.3, "uniformity": -3.0, "effective_rank": 100.0, "epochs": batch.recipe.epochs}
    values |= {"train_seconds": 1.0, "parallel_seeds": 1, "seconds": 2.0, "machine": "a processor", "device": "cpu"}
    values |= {"precision": "float32", "clnr": "0.1.0", "code": "c0de", "torch": "2.0", "python": "3.11.0"}
    return Run(**values | {"made": "2026-01-01", "extra_metrics": {}} | changes)
