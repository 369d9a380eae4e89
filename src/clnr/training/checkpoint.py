"""The state of a training on disk, so that another process can resume it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clnr.errors import DataError, option
from clnr.support.storage import lock, resolve_path, temporary_path, write_bytes
from clnr.training.fingerprint import differences

_METADATA_KEY = "clnr"


class Checkpoint:
    """A file with the state of one training, to which the training loop saves it once in so many ``seconds``.

    It is overwritten unless it is to ``resume``. A checkpoint of any training but that of ``about``, which is as JSON reads it
    back, is refused. ``choices`` of the engine are kept for ``begun_with``.
    """

    seconds: float = 60.0

    def __init__(self, path: Path, about: Mapping[str, Any], resume: bool, choices: Mapping[str, object] | None = None):
        self.path, self._about, self._resume, self._choices = path, about, resume, choices
        self._saved = time.monotonic()

    def load(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """The number of epochs done and the state after them; None to start from scratch."""
        if not self._resume or not self.path.is_file():
            return None
        import safetensors

        try:
            with safetensors.safe_open(str(self.path), "pt") as file:
                metadata = json.loads(file.metadata()[_METADATA_KEY])
                # Copied: the file is written again while they are in use.
                state = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            done, about = metadata["done"], metadata["about"]
            if metadata["digest"] != _digest(done, about, state):
                raise ValueError("it is damaged")
        except Exception as error:
            message = " ".join(str(error).split())
            raise DataError(f"{self.path} is not a checkpoint that training can resume from: {message[:200]}") from None
        if differs := differences(about, self._about):
            again = f"start again without {option('resume', True)}"
            raise DataError(f"{self.path} belongs to another training: {differs}; undo that, or {again}")
        return done, state

    def is_due(self) -> bool:
        """Whether the last save is long enough ago."""
        return time.monotonic() - self._saved >= self.seconds

    def save(self, done: int, state: Mapping[str, Tensor]) -> None:
        """Replace the file by the state after ``done`` epochs, unless a loss is not finite."""
        import safetensors.torch

        losses = state["written"][0, :done]
        if not losses.isfinite().all():
            return
        host = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        digest = _digest(done, self._about, host)
        metadata = {"done": done, "about": self._about, "digest": digest, "choices": self._choices}
        check_checkpoint(self.path)
        write_bytes(self.path, safetensors.torch.save(host, {_METADATA_KEY: json.dumps(metadata)}))
        self._saved = time.monotonic()


def begun_with(path: Path) -> Any:
    """The choices of the engine that saved a checkpoint, not checked yet; None if that is not known."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return json.loads(_metadata(path)[_METADATA_KEY])["choices"]
    return None


def check_checkpoint(path: Path) -> None:
    """Fail if a file that is not a checkpoint of clnr would be overwritten, or its name is too long."""
    resolve_path(temporary_path(path, "part"))
    if path.exists() and _METADATA_KEY not in _metadata(path):
        raise DataError(f"{path} is not a checkpoint of clnr, and would be overwritten; move it, or choose another place")


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint, if clnr wrote it, and what a killed process left of one."""
    if path.parent.is_dir():
        with lock(path, wait=True):
            temporary_path(path, "part").unlink(missing_ok=True)
    if _METADATA_KEY in _metadata(path):
        path.unlink()


def _metadata(path: Path) -> dict[str, str]:
    """What is written beside the tensors of a file; nothing if it has no tensors."""
    import safetensors

    with contextlib.suppress(safetensors.SafetensorError, OSError), safetensors.safe_open(str(path), "pt") as file:
        return file.metadata() or {}
    return {}


def _digest(done: int, about: Mapping[str, Any], state: Mapping[str, Tensor]) -> str:
    """SHA-256 of everything in a checkpoint."""
    total = hashlib.sha256(json.dumps([done, about], sort_keys=True).encode())
    for name in sorted(state):
        value = state[name].contiguous()
        total.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
