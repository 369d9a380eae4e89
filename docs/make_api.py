"""Writes docs/api.md from the docstrings of the public names: python docs/make_api.py"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import clnr

HEAD = "# API\n\nThe public names of `clnr`, from their docstrings; written by `python docs/make_api.py`.\n"
SKIPPED = {"count", "index"}
WIDTH = 100


def text() -> str:
    """The whole page."""
    names = [name for name in clnr.__all__ if not name.startswith("_")]
    return "\n".join([HEAD, *(_entry(name, getattr(clnr, name)) for name in names)])


def _entry(name: str, value: Any) -> str:
    if inspect.isclass(value):
        parts = [f"## {name}\n", _said(value)]
        for member in _members(value):
            path, own = f"{name}.{member}", getattr(value, member)
            parts += [f"### {path}\n", _signature(path, own), _said(own)]
        return "\n".join(part for part in parts if part)
    if inspect.isfunction(value):
        return "\n".join([f"## {name}\n", _signature(name, value), _said(value)])
    kind = type(value).__name__
    return f"## {name}\n\nA `{kind}`" + (f": {value.summary}.\n" if hasattr(value, "summary") else ", by name.\n")


def _members(kind: type) -> list[str]:
    """Its own public methods and properties, in their order."""
    own = [name for name, value in vars(kind).items() if not name.startswith("_") and _documented(value)]
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    return [name for name in own if name not in fields | SKIPPED]


def _documented(value: Any) -> bool:
    inner = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
    return inspect.isfunction(inner) and bool(inner.__doc__)


def _signature(name: str, value: Any) -> str:
    """How it is called, as a block of code; nothing for a property."""
    if not callable(value):
        return ""
    signature = inspect.signature(value)
    words, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        word = f"{stars}{parameter.name}: {parameter.annotation}"
        words.append(word if parameter.default is parameter.empty else f"{word} = {_default(parameter.default)}")
    one_line = f"{name}({', '.join(words)}) -> {signature.return_annotation}"
    if len(one_line) > WIDTH:
        one_line = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f") -> {signature.return_annotation}"
    return f"```python\n{one_line}\n```\n"


def _default(value: Any) -> str:
    return value.name if isinstance(value, clnr.Method) else repr(value)


def _said(value: Any) -> str:
    """A docstring as Markdown: its arguments as a list."""
    lines = (inspect.getdoc(value) or "").replace("``", "`").splitlines()
    out: list[str] = []
    listing = example = False
    for line in lines:
        example = bool(line) and (example or line.startswith(">>>"))
        title = re.fullmatch(r"(Args|Attributes|Raises|Returns):", line)
        if title:
            listing = True
            out += [f"*{title[1]}*", ""]
        elif listing and (item := re.fullmatch(r"    (\w+): (.*)", line)):
            out.append(f"- `{item[1]}`: {item[2]}")
        elif listing and line.strip():
            out.append("  " + textwrap.dedent(line).strip())
        else:
            listing = listing and not line
            out.append(f"    {line}" if example else line)
    return "\n".join(out).rstrip() + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("api.md").write_text(text(), encoding="utf-8")
