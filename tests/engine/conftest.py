"""Engines, and the graphs and views that they all face."""

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Drop, Mask, Reference, cpu_engine, gpu_engine
from clnr.engine.gpu.cuda_engine import KernelEngine
from clnr.graph import Graph
from tests.conftest import tiny

KEY, OTHER = rng.key(1, "train", 0, 0, "DropEdges"), rng.key(1, "train", 0, 0, "MaskFeatures")
LOOPS = Graph.from_edges([0, 1, 1, 2], [0, 1, 2, 1], np.random.default_rng(1).random((4, 5)), weight=[3.0, 0.5, 1, 1])


def graphs(**size):
    return {
        "usual": tiny(**size),
        "sparse features": tiny(**size, sparse=True),
        "weighted": tiny(**size, weighted=True),
        "directed, weighted, sparse": tiny(**size, undirected=False, weighted=True, sparse=True),
        "one node": Graph.from_edges([], [], [[1.0, 2.0]]),
        "no edges": Graph.from_edges([], [], np.eye(5)),
        "star": Graph.from_edges([0] * 30, np.arange(1, 31), np.random.default_rng(0).random((31, 3)), undirected=True),
        "loops of its own": LOOPS,
        "no features but zeros": Graph.from_edges([0], [1], np.zeros((3, 2)), undirected=True),
        "one feature": tiny(**size | {"features": 1}),
    }


GRAPHS = graphs()
# For kernels, which take long to interpret.
SMALL_GRAPHS = graphs(nodes=10, edges=16, features=5)
DROPS = {"all": None, "half": Drop(KEY, 0.5, False), "pairs": Drop(KEY, 0.5, True), "none left": Drop(KEY, 1.0, False)}
MASKS = {"all": None, "columns": Mask(OTHER, 0.4, False, 1.7), "elements": Mask(OTHER, 0.4, True, 2.5)}


def reference():
    return Reference(torch.device("cpu"))


def fused():
    """Triton's kernels, interpreted where there is no GPU."""
    pytest.importorskip("triton", reason="Triton is not installed")
    return KernelEngine(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def exact():
    """The GPU's, in float32."""
    return gpu_engine(torch.float32)


ENGINES = [pytest.param(cpu_engine, id="cpu"), pytest.param(exact, id="gpu", marks=pytest.mark.gpu)]
FUSED = [pytest.param(fused, id="fused", marks=pytest.mark.full)]
EVERY = [pytest.param(reference, id="reference"), *ENGINES]


@pytest.fixture
def engine(request):
    if request.param is exact and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return request.param()


def random(*shape, seed=2):
    return np.random.default_rng(seed).standard_normal(shape)
