"""What a stage of a job costs, and what that depends on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


class StageCost(NamedTuple):
    """What a stage takes.

    Attributes:
        seconds: Estimated seconds; 0 where they are not known, or next to nothing.
        memory: Estimated peak of memory in bytes, of each worker; 0 if other stages take more in any case.
        disk: Bytes on disk, at most.
        step_bytes: Bytes that each worker reads from files in a step.
        passes: How often all edges are read from files.
        passes_bytes: Bytes of rows that these passes gather.
    """

    seconds: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    step_bytes: float = 0.0
    passes: int = 0
    passes_bytes: float = 0.0


class JobSizes(ABC):
    """The sizes of a job, on which the cost of its stages depends: those of a graph in memory, or of one in files."""

    @abstractmethod
    def train(self) -> StageCost: ...

    def tune(self) -> StageCost:
        return StageCost()

    def fit_readout(self) -> StageCost:
        return StageCost()

    def embed(self) -> StageCost:
        return StageCost()

    def score(self) -> StageCost:
        return StageCost()

    def draw(self) -> StageCost:
        return StageCost()
