"""Ready agents and actions: a host, a chat agent, the files of a folder. Loaded on first use."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ChattyAI": "chatty",
    "Folder": "folder",
    "Host": "host",
    "OpenAIFunctionAgent": "function",
    "Person": "person",
    "RemoteAgent": "remote",
    "User": "user",
    "changing_actions": "files",
    "file_actions": "files",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.agents' has no attribute {name!r}")
    return getattr(importlib.import_module(f"civitas.agents.{home}"), name)
