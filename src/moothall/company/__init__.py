"""Companies: the agents of a file, supervised, with schedules, health and metrics."""

from moothall.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
