"""What a result depends on, by name: with another value anywhere, it is another result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clnr.support.machine import code_digest, environment

if TYPE_CHECKING:
    from clnr.engine import Engine
    from clnr.methods import Method
    from clnr.methods.recipe import Recipe

CHOSEN_HERE = ("engine", "precision", "cuda")
"""What is chosen for the machine, unless it is asked for."""
_LETTERS_SHOWN = 40


def fingerprint(graph: str, method: Method, recipe: Recipe, seed: int, engine: Engine, **more: Any) -> dict[str, Any]:
    """All that decides a result on the graph with a digest, as JSON reads it back; where the graph is does not count."""
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


def key_of(fingerprint: Mapping[str, Any]) -> str:
    """SHA-256 of a fingerprint."""
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In what two fingerprints differ, in words; empty if they are the same in all that the later one has."""
    phrases = []
    for name in now:
        a, b = was.get(name), now[name]
        if isinstance(a, dict) and isinstance(b, dict):
            phrases += [f"{key} was {_short(a.get(key))} and is {b[key]}" for key in b if a.get(key) != b[key]]
        elif a != b:
            shown = f"the {name} was {_short(a)} and is {_short(b)}" if isinstance(a, str | int | float) else f"another {name}"
            phrases.append(shown)
    return ", ".join(phrases)


def _short(value: object) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in str(value))
    return text if len(text) <= _LETTERS_SHOWN else f"{text[:12]}..."
