"""The only training loop, and the state of a training."""
