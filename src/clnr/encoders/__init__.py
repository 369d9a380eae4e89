"""Encoders: from a view to one row per node. Weights live in a plain dictionary, apart from the formula."""

from __future__ import annotations

from clnr.encoders.base import Encoder, Features, PlainEncoder
from clnr.encoders.gat import GAT
from clnr.encoders.gcn import GCN, BatchGCN, GaussianGCN, PReLUGCN
from clnr.encoders.mlp import MLP, Backbone
from clnr.encoders.paired import Momentum, PerView

__all__ = [
    "GAT",
    "GCN",
    "MLP",
    "Backbone",
    "BatchGCN",
    "Encoder",
    "Features",
    "GaussianGCN",
    "Momentum",
    "PReLUGCN",
    "PerView",
    "PlainEncoder",
]
