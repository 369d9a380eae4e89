"""What a result depends on, by name: with another value anywhere, it is another result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clnr.support.machine import code_digest

if TYPE_CHECKING:
    from clnr.engine import Engine
    from clnr.methods import Method
    from clnr.methods.recipe import Recipe

CHOSEN_HERE = ("engine", "precision", "cuda")
"""What is chosen for the machine, unless it is asked for."""
Fingerprint = dict[str, Any]
_LETTERS_SHOWN = 40


def fingerprint(graph: str, method: Method, recipe: Recipe, seed: int, engine: Engine, **more: Any) -> Fingerprint:
    """All that decides a result on the graph with a digest, wherever it is; as JSON reads it back."""
    from clnr.support.machine import environment

    parts = {
        "graph": graph,
        "method": method.parts(),
        "recipe": recipe.to_dict(),
        "seed": int(seed),
        "engine": engine.name,
        "precision": engine.precision,
        "code": code_digest.code_version(),
        **environment.libraries(engine.device),
        **more,
    }
    return json.loads(json.dumps(parts))


def key_of(parts: Fingerprint) -> str:
    """SHA-256 of a fingerprint."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In what two fingerprints differ, in words; empty if they are the same in all that the later one has."""
    phrases = []
    for name, value in now.items():
        earlier = was.get(name)
        if isinstance(earlier, dict) and isinstance(value, dict):
            phrases += [differences({name: earlier.get(name)}, {name: value[name]}) for name in value]
        elif earlier != value:
            phrases.append(f"{name} was {_short(earlier)} and is {_short(value)}")
    return ", ".join(filter(None, phrases))


def _short(value: object) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in str(value))
    return text if len(text) <= _LETTERS_SHOWN else f"{text[:12]}..."
