from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest
import torch

from clnr.errors import TrainingError
from clnr.support.machine import memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset a peak")
def test_the_meter_sees_a_peak_and_forgets_an_earlier_one():
    np.ones(50_000_000)
    meter = memory.MemoryMeter(torch.device("cpu"))
    before = meter.peak()
    block = np.ones(25_000_000)
    del block
    assert 190e6 < meter.peak() - before < 300e6
    assert memory.MemoryMeter(torch.device("cpu")).peak() < before + 100e6


def test_out_of_memory_becomes_advice():
    with pytest.raises(TrainingError, match=r"out of memory.*sampled_nodes"), memory.enough_memory():
        torch.zeros(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="something else"), memory.enough_memory():
        raise RuntimeError("something else")


MIB = 2**20


def system(root, groups, path="/", hierarchy="0::", own=0):
    """A system with 8 GiB of free memory, as its files show it, and groups of processes by folder."""
    about = {
        "proc/meminfo": "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\nHugePages_Total: 0\n",
        "proc/self/cgroup": f"7:pids:/elsewhere\n{hierarchy}{path}\n",
        "proc/self/status": f"Name:\tpython\nRssAnon:\t{own // 1024} kB\nThreads:\t3\n",
    }
    for folder, files in groups.items():
        about |= {f"sys/fs/cgroup/{folder}/{name}": f"{text}\n" for name, text in files.items()}
    for name, text in about.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return memory.free_memory(torch.device("cpu"), root)


def two(limit, usage=0, reclaimable=0):
    return {"memory.max": limit, "memory.current": usage, "memory.stat": f"anon 5\ninactive_file {reclaimable}"}


def one(limit, usage=0, reclaimable=0, outer=2**63 - 4096):
    stat = f"cache 5\ntotal_inactive_file {reclaimable}\nhierarchical_memory_limit {min(limit, outer)}"
    return {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": usage, "memory.stat": stat}


@pytest.mark.parametrize(
    ("groups", "path", "hierarchy", "free"),
    [
        ({}, "/", "0::", 8192),
        # Version 2: in a container, where the group is the root of what is shown.
        ({".": two(500 * MIB, 200 * MIB, 50 * MIB)}, "/", "0::", 350),
        # By a path, the bound on the group itself, on its parent, or on the nearer to its bound of both.
        ({"user/job": two("max"), "user": two(600 * MIB, 100 * MIB)}, "/user/job", "0::", 500),
        ({"user/job": two(500 * MIB, 100 * MIB), "user": two(600 * MIB, 550 * MIB)}, "/user/job", "0::", 50),
        ({"user": two(500 * MIB)}, "/another", "0::", 8192),
        # A path from another namespace leads out of what is shown.
        ({".": two(500 * MIB)}, "/../../job", "0::", 500),
        # More in use than allowed, for a moment.
        ({".": two(500 * MIB, 600 * MIB)}, "/", "0::", 0),
        # Version 1: by path; in a container, where the path is the host's; with a bound that only the statistics tell.
        ({"memory/job": one(500 * MIB, 200 * MIB, 50 * MIB)}, "/job", "4:memory:", 350),
        ({"memory": one(500 * MIB)}, "/docker/0123", "11:cpu,memory:", 500),
        ({"memory/job": one(2**63 - 4096, 100 * MIB, outer=500 * MIB)}, "/job", "4:memory:", 400),
        # Files that are not as they should be.
        ({".": {"memory.max": 500 * MIB}}, "/", "0::", 8192),
    ],
)
def test_free_memory_is_within_the_bounds_of_groups(groups, path, hierarchy, free, tmp_path):
    assert system(tmp_path / "a", groups, path, hierarchy) == free * MIB
    assert memory.free_memory(torch.device("cpu"), tmp_path / "nothing") == memory.total_memory()
    # What the process has already, it need not find.
    assert system(tmp_path / "b", groups, path, hierarchy, own=100 * MIB) == (free + 100) * MIB


def test_what_torch_holds_on_a_gpu_and_nobody_uses_is_free(monkeypatch):
    for name, value in (("mem_get_info", (7 * MIB, 100 * MIB)), ("memory_reserved", 60 * MIB), ("memory_allocated", 20 * MIB)):
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert memory.free_memory(torch.device("cuda")) == 47 * MIB


@pytest.mark.gpu
def test_on_a_gpu_memory_is_free_again_when_it_is_given_back(cuda):
    torch.cuda.empty_cache()
    before = memory.free_memory(cuda)
    held = torch.empty(256 * MIB, dtype=torch.uint8, device=cuda)
    assert before - memory.free_memory(cuda) >= 256 * MIB
    del held
    assert before - memory.free_memory(cuda) < 16 * MIB


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps it")
def test_freed_memory_goes_back_to_the_system():
    """In a process of its own: blocks below the limit of the C library's heap, freed between others that stay."""
    code = """
import numpy as np
from clnr.support.machine.memory import release_freed
resident = lambda: int(open("/proc/self/statm").read().split()[1])
np.empty(1 << 24, np.uint8)  # Freed: from now on, blocks of this size are the heap's.
blocks = [np.ones(1 << 20, np.uint8) for _ in range(400)]
blocks[::2] = [None] * 200
before = resident()
release_freed()
print(before - resident())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) * os.sysconf("SC_PAGE_SIZE") > 150 << 20
