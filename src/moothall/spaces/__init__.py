"""Spaces: they hold agents and deliver messages between them."""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
