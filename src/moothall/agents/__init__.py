"""Ready agents and actions: a host, a chat agent, the files of a folder. Loaded on first use."""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
