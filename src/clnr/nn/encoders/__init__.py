"""Encoders: from a view to one row per node. Weights live in a plain dictionary, apart from the formula."""

from __future__ import annotations

from clnr.nn.encoders.encoder import Encoder, Features, NoEncoder, PlainEncoder
from clnr.nn.encoders.gcn import GAT, GCN, BatchGCN, GaussianGCN, PReLUGCN
from clnr.nn.encoders.mlp import MLP, Backbone
from clnr.nn.encoders.paired_encoders import GCNAndMLP, MomentumEncoder, MultiViewEncoder

__all__ = [
    "GAT",
    "GCN",
    "MLP",
    "Backbone",
    "BatchGCN",
    "Encoder",
    "Features",
    "GCNAndMLP",
    "GaussianGCN",
    "MomentumEncoder",
    "MultiViewEncoder",
    "NoEncoder",
    "PReLUGCN",
    "PlainEncoder",
]
