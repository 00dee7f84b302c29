"""Memory: what an agent remembers, as chat messages. Each kind loads on first use."""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
