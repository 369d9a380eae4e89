from __future__ import annotations

import os

import pytest

from clnr.support.machine.processors import usable_processors


def system(root, path, files):
    """A system whose process is in a cgroup, with files below sys/fs/cgroup."""
    about = {
        "proc/self/cgroup": f"7:pids:/elsewhere\n{path}\n",
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }
    for name, text in about.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return usable_processors(root)


def one(quota):
    return {"cpu/job/cpu.cfs_quota_us": quota, "cpu/job/cpu.cfs_period_us": 100000}


@pytest.mark.parametrize(
    ("path", "files", "count"),
    [
        ("0::/", {"cpu.max": "max 100000"}, 64),
        # A part of a processor is one; the narrowest group counts.
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/job/step", {"job/step/cpu.max": "800000 100000", "job/cpu.max": "300000 100000"}, 3),
        # Version 1.
        ("4:cpu:/job", one(400000), 4),
        ("4:cpu:/job", one(-1), 64),
        # More than there are, and what is not as it should be.
        ("0::/", {"cpu.max": "9900000 100000"}, 64),
        ("0::/", {"cpu.max": "100 0"}, 64),
    ],
)
def test_as_many_processors_as_the_cgroups_give_time_for(path, files, count, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    assert system(tmp_path, path, files) == count


def test_no_more_than_the_process_is_bound_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5}, raising=False)
    assert usable_processors(tmp_path) == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_processors(tmp_path) == 1
