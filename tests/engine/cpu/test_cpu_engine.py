import sys

import numpy as np
import pytest
import torch

from clnr.engine import View, cpu_engine
from clnr.engine.cpu.csr_arrays import numba_kernels
from clnr.engine.cpu.threads import share_rows, use_threads
from clnr.errors import DeviceError
from tests.conftest import tiny


def test_without_numba_a_cpu_is_refused(monkeypatch):
    numba_kernels()
    monkeypatch.delattr("clnr.engine.cpu.numba_kernels")
    monkeypatch.setitem(sys.modules, "clnr.engine.cpu.numba_kernels", None)
    numba_kernels.cache_clear()
    with pytest.raises(DeviceError, match="a CPU needs numba, which cannot be used"):
        cpu_engine()


@pytest.mark.parametrize("width", [1, 1 << 30])
@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_every_row_is_done_once_however_many_threads(threads, width):
    indptr = np.array([0, 0, 7, 7, 900, 901, 901])
    seen = []
    with use_threads(threads):
        share_rows(indptr, lambda low, high: seen.extend(range(low, high)), width=width)
        share_rows(np.zeros(1, np.int64), lambda low, high: pytest.fail("there are no rows"))
    assert sorted(seen) == list(range(6))


def test_a_failure_in_another_thread_is_not_lost(threads):
    def fails(low, high):
        if high == 6:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share_rows(np.arange(7), fails, width=1 << 30)


def test_a_thread_is_woken_only_for_much_work():
    calls = []
    with use_threads(4):
        for width in (1, 1 << 17, 1 << 18, 1 << 30):
            calls.append([])
            share_rows(np.arange(9), lambda low, high: calls[-1].append((low, high)), width=width)
    # Eight rows of one entry each count as 16 entries.
    assert [len(parts) for parts in calls] == [1, 2, 4, 4]


def test_what_is_no_number_stays_none():
    """A loss that breaks has to be noticed."""
    engine = cpu_engine()
    operators = engine.operators(View(engine.to_device(tiny())))
    h = torch.zeros(40, 3)
    h[0] = torch.nan
    assert operators.propagate(h, relu=True).isnan().any()
