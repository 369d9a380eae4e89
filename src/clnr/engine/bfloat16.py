"""Whether this CPU multiplies bfloat16 so much faster than float32 that training should: measured once for a machine."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch

from clnr.engine.cpu import numba_kernels
from clnr.engine.threads import use_threads
from clnr.errors import ClnrError
from clnr.support import environment
from clnr.support.atomic_io import write_atomic
from clnr.support.paths import cache_folder

_TIMES_FASTER = 1.5
_SMALL, _SHAPE = (64, 256, 256), (1024, 512, 512)
_TURNS = 7
# As Linux calls what AMX, AVX-512 and ARM processors have.
_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}


@functools.cache
def bfloat16_pays() -> bool:
    """Whether ``auto`` is bfloat16 on this CPU.

    The answer is kept in the cache folder for this processor and this torch, so that it stays the same from run to run.
    """
    if not has_bfloat16() or numba_kernels() is None:
        return False
    about = json.dumps([environment.computed_by(torch.device("cpu")), sorted(_flags())])
    with contextlib.suppress(ClnrError):  # Where there is no folder, it is measured in each process.
        path = cache_folder() / "bfloat16" / f"{hashlib.sha256(about.encode()).hexdigest()[:16]}.json"
        if (answer := _read(path)) is not None:
            return answer
        measured = measure()
        with contextlib.suppress(OSError):
            write_atomic(path, json.dumps(measured | {"about": about}).encode())
        return bool(measured["pays"])
    return bool(measure()["pays"])


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has instructions for products of bfloat16, as far as Linux or torch tells."""
    asked = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return bool(_flags(cpuinfo) & _FLAGS) or any(getattr(torch.cpu, name, bool)() for name in asked)


def _flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    with contextlib.suppress(OSError):
        lines = cpuinfo.read_text().splitlines()
        return {word for line in lines if line.lower().startswith(("flags", "features")) for word in line.split()[2:]}
    return set()


def measure() -> dict[str, float | bool]:
    """Seconds of a product in float32 and in bfloat16 on one thread, and whether bfloat16 pays."""
    best = _best(_SMALL)
    # A torch without the instructions would take minutes for larger ones.
    if best["bfloat16"] < 4 * best["float32"]:
        best = _best(_SHAPE)
    return {**best, "pays": best["float32"] > _TIMES_FASTER * best["bfloat16"]}


def _best(shape: tuple[int, int, int]) -> dict[str, float]:
    """The best of some turns, by type."""
    rows, inner, columns = shape
    a, b = torch.ones(rows, inner), torch.ones(inner, columns)
    products: dict[str, Callable[[], object]] = {
        str(dtype).removeprefix("torch."): functools.partial(torch.mm, a.to(dtype), b.to(dtype))
        for dtype in (torch.float32, torch.bfloat16)
    }
    best = dict.fromkeys(products, float("inf"))
    with use_threads(1):
        for _ in range(_TURNS):
            for name, multiply in products.items():
                began = time.perf_counter()
                multiply()
                best[name] = min(best[name], time.perf_counter() - began)
    return best


def _read(path: Path) -> bool | None:
    """An earlier answer; None if there is none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        answer = json.loads(path.read_text())["pays"]
        return answer if isinstance(answer, bool) else None
    return None
