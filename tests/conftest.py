"""Fixtures shared by all tests: a place of one's own for caches and records, real data where it is, tiny graphs."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import signal
from pathlib import Path

# Threads that wait do so asleep: those of tests beside this one have work for the processor. torch asks when it is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Those of NumPy's and SciPy's products never sleep: of small matrices they make seven times the work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# In float32 on any CPU, and so are processes that tests start; CLNR_PRECISION=bfloat16 is as on a CPU that prefers that.
os.environ.setdefault("CLNR_PRECISION", "float32")

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    # Without a GPU kernels are interpreted, which Triton wants to know before it is imported.
    os.environ["TRITON_INTERPRET"] = "1"

from clnr.embedding.planning import plan
from clnr.errors import command_line
from clnr.graph import Graph

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is where tests run in the background of a shell, and processes that are to be stopped by Ctrl-C would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _let_numpy_count() -> None:
    """Loops of interpreted kernels count by ``int`` of an array of one number, which NumPy 2.4 refuses."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched


def _interpret_faster() -> None:
    """Half of the interpreter's time goes into work that changes nothing: overflows are computed and, without Triton's
    debug mode, ignored; and a function that a kernel calls patches the language, which the kernel has patched already.
    """
    from triton.runtime import interpreter

    options = interpreter.InterpreterOptions(sanitize_overflow=False)
    assert not options.debug
    interpreter.interpreter_builder.options = options
    original, language = interpreter._patch_lang, interpreter.tl

    def patched(function):
        modules = [each for each in function.__globals__.values() if each is language or each is language.core]
        if any(language.core.is_builtin(each.load) for each in modules):
            return original(function)
        return interpreter._LangPatchScope()

    interpreter._patch_lang = patched


if os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton"):
    _let_numpy_count()
    _interpret_faster()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules and tests that are collected stay: to look among them for garbage, now or later, finds none and takes a while."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()


_HOMES = itertools.count()


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch) -> Path:
    """Caches and the record of runs go to a folder of the test's own, which the first to write there makes.

    CLNR_DATA is not seen unless asked for.
    """
    folder = tmp_path_factory.getbasetemp() / f"clnr-home-{next(_HOMES)}"
    monkeypatch.setenv("CLNR_HOME", str(folder))
    monkeypatch.delenv("CLNR_DATA", raising=False)
    return folder


_DATA = os.environ.get("CLNR_DATA")


@pytest.fixture
def real_data() -> Path:
    """The folder with raw data sets that CLNR_DATA named when the tests began."""
    if not _DATA:
        pytest.skip("real data: set CLNR_DATA to a folder with raw data sets to run this")
    return Path(_DATA).absolute()


@pytest.fixture
def cuda() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture
def clnr(monkeypatch, capsys):
    """The command line, in this process."""
    from tests.command_line import entry_point

    return entry_point(monkeypatch, capsys)


@pytest.fixture(scope="session")
def apart():
    """Calls in processes apart, all forked from one."""
    from tests.apart import process_apart

    with process_apart() as call:
        yield call


@pytest.fixture
def options():
    """Messages name options, as on the command line."""
    with command_line():
        yield


# Many tiny steps are done sooner without a second thread, above all on a busy machine.
_THREADS = torch.get_num_threads()
torch.set_num_threads(1)


@pytest.fixture
def threads():
    """As many as there usually are, where they matter."""
    torch.set_num_threads(_THREADS)
    yield
    torch.set_num_threads(1)


def tiny(
    nodes: int = 40,
    edges: int = 90,
    features: int = 12,
    classes: int = 3,
    *,
    seed: int = 0,
    sparse: bool = False,
    weighted: bool = False,
    undirected: bool = True,
) -> Graph:
    """A random attributed graph for tests; the last two nodes are isolated and node 0 is a hub."""
    import scipy.sparse as sp

    random = np.random.default_rng(seed)
    linked = max(nodes - 2, 1)
    source = random.integers(0, linked, edges)
    target = np.where(random.random(edges) < 0.2, 0, random.integers(0, linked, edges))
    apart = source != target
    x = (random.random((nodes, features)) < 0.4) * random.random((nodes, features))
    weight = random.random(edges) + 0.1 if weighted else None
    return Graph.from_edges(
        source[apart],
        target[apart],
        sp.csr_array(x) if sparse else x,
        weight=None if weight is None else weight[apart],
        undirected=undirected,
        labels=np.arange(nodes) % classes,
        name="tiny",
    )


@pytest.fixture
def bounded_from_files(monkeypatch):
    """A graph folder is trained on from its files wherever memory is bounded, however small it is."""

    monkeypatch.setattr(plan, "fits_memory", lambda graph, settings, needed, limit, beside: limit is None)
