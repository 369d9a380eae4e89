"""For mkdocstrings: what it does not see in the source.

The examples of docstrings (``>>> ...``) become blocks of code, which Markdown would take for quotations; and a function that
``takes`` the fields of a dataclass has these as parameters.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Examples(griffe.Extension):
    """An example goes from its first prompt to the next empty line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)


class Signatures(griffe.Extension):
    """The parameters of a decorated function are those that Python itself shows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if isinstance(obj, griffe.Function) and any(str(each.value).startswith("takes(") for each in obj.decorators):
            function = getattr(import_module(obj.module.path), obj.name)
            obj.parameters = griffe.Parameters(*map(as_griffe, inspect.signature(function).parameters.values()))


def as_griffe(parameter: inspect.Parameter) -> griffe.Parameter:
    kind = griffe.ParameterKind[parameter.kind.name.lower()]
    # A dataclass calls a default that is made anew each time <factory>.
    default = repr(parameter.default).replace("<factory>", "{}")
    return griffe.Parameter(parameter.name, annotation=parameter.annotation, kind=kind, default=default)
