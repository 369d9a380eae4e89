"""What is done besides when a wheel is built: the digest of the code is put in, which else takes a second at first use."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from clnr.support.machine.code_digest import KNOWN_DIGESTS, content_digest, read_numerics, source_digest

        sources = read_numerics(Path(self.root, "src", "clnr"))
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, KNOWN_DIGESTS)
        file.write_text(json.dumps({content_digest(sources): source_digest(sources)}))
        build_data["force_include"][str(file)] = f"clnr/{KNOWN_DIGESTS}"
