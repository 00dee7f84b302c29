"""Ready agents and actions: a host, a chat agent, the files of a folder. Loaded on first use."""

from __future__ import annotations

from moothall.text import lazily

_HOME = {
    "ChattyAI": "chatty",
    "Desk": "person",
    "Folder": "folder",
    "Host": "host",
    "OpenAIFunctionAgent": "function",
    "Person": "person",
    "RemoteAgent": "remote_agent",
    "ReplyRequest": "person",
    "User": "user",
    "changing_actions": "folder_actions",
    "file_actions": "folder_actions",
}

__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
