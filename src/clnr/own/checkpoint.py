"""What a training has come to, on disk, so that it can go on after a stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from clnr.errors import DataError
from clnr.writing import write_whole

FORM = 1
_LONG = 40


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
                told = json.loads(file.metadata()["clnr"])
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            done, about, form = int(told["done"]), dict(told["about"]), told["form"]
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
            raise DataError(f"{self.path} is no checkpoint that can be gone on from: {error}") from None
        if form != FORM:
            raise DataError(f"{self.path} is a checkpoint of form {form!r}; this clnr knows form {FORM}")
        differs = _differences(about, self._about)
        if differs:
            raise DataError(f"{self.path} is of another training: {differs}; take that back, or begin anew without --resume")
        return done, state

    def save(self, done: int, state: Mapping[str, Tensor]) -> None:
        import safetensors.torch

        losses = state["written"][0, :done]
        if not losses.isfinite().all():
            return
        told = {"form": FORM, "done": done, "about": self._about}
        host = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        write_whole(self.path, safetensors.torch.save(host, {"clnr": json.dumps(told)}))


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What is not as it was, in words."""
    said = []
    for name in now:
        a, b = was.get(name), now[name]
        if isinstance(a, dict) and isinstance(b, dict):
            said += [f"{key} was {a.get(key)} and is {b[key]}" for key in b if a.get(key) != b[key]]
        elif a != b:
            said.append(f"{name} was {a} and is {b}" if len(str(b)) < _LONG else f"the {name} have changed")
    return ", ".join(said)
