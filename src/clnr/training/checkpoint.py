"""What a training has come to, on disk, so that it can go on after a stop."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clnr.errors import DataError
from clnr.support.atomic_io import remove_leftovers, resolve_path, write_atomic

FORMAT_VERSION = 1
_LONG = 40
_MARK = "clnr"


class Checkpoint:
    """A file that holds the state of one training; see ``train.Keeper``.

    Args:
        path: The file.
        every: After how many epochs it is written.
        about: What the training is of: a state of anything else is refused.
        resume: Whether to go on from what the file holds; if not, it is overwritten.
    """

    def __init__(self, path: Path, every: int, about: Mapping[str, object], resume: bool):
        self.path, self.every, self._resume = path, every, resume
        # As it would be read back.
        self._about = json.loads(json.dumps(about))

    def load(self) -> tuple[int, Mapping[str, Tensor]] | None:
        if not self._resume or not self.path.is_file():
            return None
        import safetensors

        try:
            with safetensors.safe_open(str(self.path), "pt") as file:
                told = json.loads(file.metadata()[_MARK])
                # Copied: the file is written again while they are in use.
                state = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            done, about, form = told["done"], dict(told["about"]), told["form"]
            if type(done) is not int:
                raise ValueError(f"{done!r} is no number of epochs")
            # Those of before had none.
            if "digest" in told and told["digest"] != _digest(done, about, state):
                raise ValueError("it is not as it was written, but damaged")
        except Exception as error:
            said = " ".join(str(error).split())
            raise DataError(f"{self.path} is no checkpoint that can be gone on from: {said[:200]}") from None
        if form != FORMAT_VERSION:
            raise DataError(f"{self.path} is a checkpoint of form {form!r:.40}; this clnr knows form {FORMAT_VERSION}")
        differs = _differences(about, self._about)
        if differs:
            raise DataError(f"{self.path} is of another training: {differs}; take that back, or begin anew without --resume")
        return done, state

    def save(self, done: int, state: Mapping[str, Tensor]) -> None:
        import safetensors.torch

        losses = state["written"][0, :done]
        if not losses.isfinite().all():
            return
        host = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        told = {"form": FORMAT_VERSION, "done": done, "about": self._about, "digest": _digest(done, self._about, host)}
        check_checkpoint(self.path)
        write_atomic(self.path, safetensors.torch.save(host, {_MARK: json.dumps(told)}))


def checkpoint_of(folder: Path) -> Path:
    """Where the state is kept of a training whose folder is to be this one."""
    whole = resolve_path(folder)
    return whole.with_name(f"{whole.name}.checkpoint")


def check_checkpoint(path: Path) -> None:
    """Fail where something else than a checkpoint of ours would be overwritten."""
    if path.exists() and not _is_ours(path):
        raise DataError(f"{path} is no checkpoint of clnr's, and would be overwritten; move it, or choose another folder")


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint, if it is one of ours, and what a killed process has left of one."""
    remove_leftovers(path)
    if _is_ours(path):
        path.unlink()


def _is_ours(path: Path) -> bool:
    import safetensors

    with contextlib.suppress(safetensors.SafetensorError, OSError), safetensors.safe_open(str(path), "pt") as file:
        return _MARK in (file.metadata() or {})
    return False


def _digest(done: int, about: Mapping[str, Any], state: Mapping[str, Tensor]) -> str:
    """Of all that a checkpoint holds."""
    total = hashlib.sha256(json.dumps([done, about], sort_keys=True).encode())
    for name in sorted(state):
        value = state[name].contiguous()
        total.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What is not as it was, in words."""
    said = []
    for name in now:
        a, b = was.get(name), now[name]
        if isinstance(a, dict) and isinstance(b, dict):
            said += [f"{key} was {_short(a.get(key))} and is {b[key]}" for key in b if a.get(key) != b[key]]
        elif a != b:
            said.append(f"{name} was {_short(a)} and is {b}" if len(str(b)) < _LONG else f"the {name} have changed")
    return ", ".join(said)


def _short(value: object) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in str(value)[:_LONG])
