"""Orders: the options that a command was run with, as its run records them, and their agents."""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
