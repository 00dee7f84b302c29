"""Agents: identity, messages and blocks; how they reply, alone or together; ready ones."""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
