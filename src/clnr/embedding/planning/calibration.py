"""Corrects estimated times by how long stages took on this machine before; nothing else depends on it.

A small file in the cache folder has it, by hardware and stage: how many times longer it took, of the last few runs. Stages of
a second and of an hour are kept apart, since a model of both is wrong in other ways.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from clnr.errors import ClnrError
from clnr.support.machine.paths import cache_folder
from clnr.support.stage_clock import STAGES, StageTime
from clnr.support.storage.atomic_io import write_atomic

_FILE = "stage_seconds.json"
_KEPT_RUNS = 5
_KEPT_MACHINES = 20
# Of what is shorter, the model knows nothing.
_LEAST_SECONDS = 0.02
# No ratio beyond is believed.
_MOST = 100.0

Ratios = dict[str, dict[str, dict[str, list[float]]]]


def corrected(machine: str, modelled: Mapping[str, float]) -> tuple[dict[str, float], bool]:
    """Modelled seconds of stages times the ratios that a machine had before; and whether it had any."""
    known = _read().get(machine, {})
    ratios = {stage: _ratio(known.get(stage, {}), seconds) for stage, seconds in modelled.items()}
    return {stage: seconds * (ratios[stage] or 1.0) for stage, seconds in modelled.items()}, any(ratios.values())


def _ratio(by_size: Mapping[str, list[float]], seconds: float) -> float | None:
    """The median ratio of stages about as long; else of those ten times longer or shorter."""
    near = [by_size.get(str(_size(seconds) + more), []) for more in (0, 1, -1)]
    return next((statistics.median(each) for each in near if each), None)


def _size(seconds: float) -> int:
    return round(math.log10(max(seconds, _LEAST_SECONDS)))


def record(machine: str, modelled: Mapping[str, float], measured: Iterable[StageTime]) -> None:
    """Keep what the stages of a run took. A machine that cannot write there estimates as it would without."""
    ratios = _read()
    # The machine of this run comes last, and the first is forgotten.
    own = ratios[machine] = ratios.pop(machine, {})
    for stage, seconds, *_ in measured:
        thought = modelled.get(stage, 0.0)
        if thought >= _LEAST_SECONDS:
            by_size = own.setdefault(stage, {})
            size = str(_size(thought))
            last = [*by_size.get(size, []), min(max(seconds / thought, 1 / _MOST), _MOST)]
            by_size[size] = [float(f"{each:.3g}") for each in last[-_KEPT_RUNS:]]
    kept = dict(list(ratios.items())[-_KEPT_MACHINES:])
    with contextlib.suppress(OSError, ClnrError):
        write_atomic(cache_folder() / _FILE, json.dumps(kept).encode())


def _read() -> Ratios:
    """What was kept; nothing, where the file is missing or not as it should be."""
    try:
        content: Ratios = json.loads((cache_folder() / _FILE).read_bytes())
        stages = [each for machine in content.values() for each in machine.items()]
        sizes = [size for _, stage in stages for size in stage.values()]
        valid = all(len(size) <= _KEPT_RUNS and all(map(_is_ratio, size)) for size in sizes)
    except (OSError, ValueError, ClnrError, RecursionError, AttributeError, TypeError):
        return {}
    return content if valid and all(name in STAGES for name, _ in stages) else {}


def _is_ratio(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 / _MOST <= value <= _MOST
