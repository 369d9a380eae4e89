"""The processes that share a training by sampled steps. Here: what they do together, which for one alone is nothing.

In a step every worker draws the same nodes and views, and takes its share of the nodes. The loss is the sum of the workers'
parts of it: each differentiates its own part, what crosses between workers passes gradients back, and the gradients of the
parameters are added up. So each worker does the same step of the optimiser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Value = TypeVar("Value", float, "Tensor")
Plain = TypeVar("Plain")


class Workers:
    """A group of processes as one of them sees it: here a group of one; ``WorkerGroup`` is one of several."""

    def __init__(self) -> None:
        # Which of them this is, how many there are, and how many of them are on this machine.
        self.rank, self.size, self.local_size = 0, 1, 1

    @property
    def first(self) -> bool:
        """Whether this is the one that reads checkpoints, writes and reports."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.size == 1

    def sharing(self, rows: int) -> Workers:
        """These workers in a step in which they have ``rows`` rows together, a share each: in the order of rank."""
        return self

    def share(self, nodes: Tensor | None, device: torch.device | None = None) -> Tensor | None:
        """This worker's share of the nodes of a step; None stands for all nodes."""
        return nodes

    def num_rows(self, rows: Tensor) -> int:
        """How many rows there are, of which ``rows`` are this worker's share."""
        return len(rows)

    def mean(self, values: Tensor, dim: int | None = None) -> Tensor:
        """This worker's part of the mean, along ``dim`` if given, of all workers' values, as many for each row of its share."""
        return values.mean(dim)

    def part(self, value: Value) -> Value:
        """This worker's part of a value that all workers have computed alike."""
        return value

    def all_reduce_with_grad(self, value: Tensor) -> Tensor:
        """The sum of all workers' values, on each of them; gradients pass."""
        return value

    def all_gather(self, rows: Tensor) -> Tensor:
        """All workers' rows in the order of the step's nodes, without gradients."""
        return rows

    def all_reduce(self, *values: Tensor) -> list[Tensor]:
        """The sums of all workers' values, without gradients; those given may be overwritten."""
        return list(values)

    def weights(self, rows: Tensor, nodes: Callable[[], Tensor | None]) -> Tensor | None:
        """One over how many workers have the row of each node, None for 1; ``nodes`` gives the nodes, or None for all."""
        return None

    def check_same_on_all_ranks(self, about: Callable[[], Mapping[str, object]]) -> None:
        """Fail where the workers' descriptions of the training differ; one alone is not asked for its own."""

    def broadcast_object(self, value: Plain) -> Plain:
        """The value that the first worker gives: a number, or anything else that JSON has."""
        return value

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors by those of the first worker."""

    def work_queue(self, count: int) -> Iterable[int]:
        """Numbers below ``count``, in order, each given to one of the workers: to whoever is the next to ask."""
        return range(count)

    def all_reduce_min(self, number: int) -> int:
        """The smallest of all workers' numbers, once all that are alive have come here, however long they take."""
        return number

    def barrier(self) -> None:
        """Wait until all workers have come here, however long they take."""
        self.all_reduce_min(0)

    def claim(self) -> bool:
        """End the other workers, and whether this one reports the error: the first that asks does."""
        return True

    def leave(self) -> None:
        """Wait until the first worker is done: it evaluates and writes after the others have ended their training."""

    def close(self) -> None:
        """Have no more to do with the others."""


ALONE = Workers()
