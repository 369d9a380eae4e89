"""The hyper-parameters that no part of a method declares, and the order of all of them in a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from clnr.nn.hyper_parameters import HyperParameter, hyper_parameter

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


# Keys that recipes have had so far, in the order in which they are written.
_KEY_ORDER = (
    *("encoder", "layers", "hidden", "dimension", "epochs", "learning_rate", "warmup", "schedule", "weight_decay"),
    *("weight_decay_mode", "patience", "temperature", "sampled_nodes", "edge_drop", "edge_drop_2", "edge_noise"),
    *("edge_drop_mode", "feature_mask", "feature_mask_2", "feature_mask_mode", "centrality", "head_width", "decorrelation"),
    *("momentum", "ppr_alpha", "diffusion_error", "diffusion_scale", "heads", "output_heads", "dropout"),
    *("probe_steps", "probe_learning_rate", "probe_weight_decay"),
    *("structure", "walk_steps", "power", "degree_power", "hops", "hop_rows", "reduced", "walk_columns", "edge_weight"),
    *("mix", "feature_weights", "moments", "max_neighbors"),
)


def in_order(keys: Mapping[str, HyperParameter]) -> dict[str, HyperParameter]:
    """Hyper-parameters as a recipe lists them; keys that came later follow in the order of their declarations."""
    return dict(sorted(keys.items(), key=lambda item: _KEY_ORDER.index(item[0]) if item[0] in _KEY_ORDER else len(_KEY_ORDER)))
