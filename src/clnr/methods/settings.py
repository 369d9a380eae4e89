"""The hyper-parameters that no part of a method declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from clnr.nn.hyper_parameters import hyper_parameter

_PAPER_SOURCE = "paper, hyper-parameters"


@dataclass(frozen=True)
class Training:
    """Read by the training loop and its optimizer; the edge noise by what prepares the training graph."""

    epochs: int = hyper_parameter(50, 0, 10**7, "training steps, each on fresh views of the whole graph")
    learning_rate: float = hyper_parameter(1e-3, 1e-12, 10.0, "of Adam", source=_PAPER_SOURCE)
    warmup: float = hyper_parameter(0.0, 0.0, 1.0, "share of the epochs in which the learning rate rises from 0")
    schedule: str = hyper_parameter(
        "constant", choices=("constant", "cosine"), meaning="the learning rate after that: stays, or falls to 0"
    )
    weight_decay: float = hyper_parameter(0.0, 0.0, 10.0, "of Adam", source=_PAPER_SOURCE)
    weight_decay_mode: str = hyper_parameter(
        "l2", choices=("l2", "decoupled"), meaning="weight decay in the gradient, or apart from it (AdamW)"
    )
    patience: int = hyper_parameter(0, 0, 10**7, "epochs without a new best after which training stops; 0 for never")
    edge_noise: float = hyper_parameter(0.0, 0.0, 100.0, "random edges trained with but not embedded, per edge there is")


@dataclass(frozen=True)
class Probe:
    """Read by the evaluation of unsupervised methods."""

    probe_steps: int = hyper_parameter(2000, 1, 10**6, "full-batch Adam steps of the linear probe", source="authors' runs")
    probe_learning_rate: float = hyper_parameter(1e-2, 1e-12, 10.0, "of the linear probe")
    probe_weight_decay: float = hyper_parameter(1e-4, 0.0, 10.0, "of the linear probe (L2)")


@runtime_checkable
class RecipeValues(Protocol):
    """What parts of a method are filled from: a ``Recipe``, whose keys are those of all methods."""

    def to_dict(self) -> dict[str, Any]: ...

    def of_view(self, index: int) -> RecipeValues: ...
