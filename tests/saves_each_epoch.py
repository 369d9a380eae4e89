"""``python -m tests.saves_each_epoch`` is ``clnr``, with a checkpoint after each epoch, not each minute."""

from clnr.__main__ import run
from clnr.training.checkpoint import Checkpoint

Checkpoint.seconds = 0.0

if __name__ == "__main__":
    run()
