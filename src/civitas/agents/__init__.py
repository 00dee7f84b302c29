"""Ready agents and actions: a host, a chat agent, the files of a folder. Loaded when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.agents.chatty import ChattyAI as ChattyAI
    from civitas.agents.files import changing_actions as changing_actions
    from civitas.agents.files import file_actions as file_actions
    from civitas.agents.folder import Folder as Folder
    from civitas.agents.function import OpenAIFunctionAgent as OpenAIFunctionAgent
    from civitas.agents.host import Host as Host
    from civitas.agents.person import Person as Person
    from civitas.agents.remote import RemoteAgent as RemoteAgent
    from civitas.agents.user import User as User

_HOME = {
    "ChattyAI": "civitas.agents.chatty",
    "Folder": "civitas.agents.folder",
    "Host": "civitas.agents.host",
    "OpenAIFunctionAgent": "civitas.agents.function",
    "Person": "civitas.agents.person",
    "RemoteAgent": "civitas.agents.remote",
    "User": "civitas.agents.user",
    "changing_actions": "civitas.agents.files",
    "file_actions": "civitas.agents.files",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
