"""Names of before: they work for one version, with a warning that names the new one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping


class RenamedWarning(FutureWarning):
    """A name of before was used."""


def renamed(kind: str, name: str, names: Mapping[str, str]) -> str:
    """Today's name: that of before is looked up, with a warning."""
    if name not in names:
        return name
    warnings.warn(
        f"{kind} '{name}' is now '{names[name]}'; the old name works in this version only", RenamedWarning, stacklevel=3
    )
    return names[name]
