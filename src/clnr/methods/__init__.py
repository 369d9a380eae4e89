"""Every method as one row, its model, and its recipe."""

from __future__ import annotations

from clnr.methods.registry import (
    ADAPTIVE,
    BASELINES,
    BGRL,
    CCA_SSG,
    CLEORA,
    CLNR,
    CLNR_HOPS,
    CLNR_MIX,
    CLNR_MLP,
    CLNR_TUNED,
    DCLNR,
    DGI,
    FASTRP,
    GAE,
    GCA,
    GCLNR,
    GRACE,
    GRACE_ALL,
    MASK,
    METHODS,
    MVGRL,
    MVGRL_PLAIN,
    NCLNR,
    QUICK_BASELINES,
    RAW,
    RCLNR,
    REMOVED,
    SHUFFLE,
    SPECTRAL,
    SUPERVISED_GAT,
    SUPERVISED_GCN,
    SVD,
    SVD_BOTH,
    SVD_HOPS,
    SVD_MIX,
    SVD_PROPAGATED,
    UNIFORM,
    UNTRAINED,
    VARIANTS,
    VGAE,
    Architecture,
    Method,
    find,
)

__all__ = ["BASELINES", "METHODS", "QUICK_BASELINES", "REMOVED", "VARIANTS", "Architecture", "Method", "find"]
__all__ += ["ADAPTIVE", "MASK", "SHUFFLE", "UNIFORM"]
__all__ += ["BGRL", "CCA_SSG", "CLNR", "DCLNR", "DGI", "GAE", "GCA", "GCLNR", "GRACE", "GRACE_ALL"]
__all__ += ["MVGRL", "MVGRL_PLAIN", "NCLNR", "RAW", "RCLNR", "SUPERVISED_GAT", "SUPERVISED_GCN", "UNTRAINED", "VGAE"]
__all__ += ["CLEORA", "CLNR_HOPS", "CLNR_MIX", "CLNR_MLP", "CLNR_TUNED", "FASTRP", "SPECTRAL"]
__all__ += ["SVD", "SVD_BOTH", "SVD_HOPS", "SVD_MIX", "SVD_PROPAGATED"]
