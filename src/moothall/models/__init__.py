"""Models, which answer a list of chat messages. Each provider is one file, loaded on first use."""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
