"""The GPU engines: Triton's kernels, cuSPARSE without Triton, and sampled steps."""
