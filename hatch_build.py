"""What the package index shows: README with its links made absolute, and the project's address.

On the index, a link into the repository leads nowhere. `MOOTHALL_PROJECT_URL` says where the
repository is; without it the links stay as they are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# The target of a link or of a picture in Markdown: no address, and no heading of the same page.
_RELATIVE = re.compile(r"(!?)(\[(?:[^\[\]]|\[[^\]]*\])*\])\((?![a-z]+:|#)([^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both fields from README.md and the environment."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        address = os.environ.get("MOOTHALL_PROJECT_URL", "").rstrip("/")
        metadata["urls"] = {}
        if address:
            text = self._absolute(text, address)
            metadata["urls"] = {
                "Source": address,
                "Documentation": f"{address}/blob/main/docs/index.md",
                "Changelog": f"{address}/blob/main/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

    def _absolute(self, text: str, address: str) -> str:
        def link(found: re.Match[str]) -> str:
            picture, label, target = found.groups()
            kind = "raw" if picture else "blob"
            return f"{picture}{label}({address}/{kind}/main/{target})"

        return _RELATIVE.sub(link, text)
