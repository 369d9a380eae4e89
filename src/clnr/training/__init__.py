"""The training loop, and the state of a training."""
