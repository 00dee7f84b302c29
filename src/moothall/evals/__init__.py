"""Evaluations: recorded runs run again in a frozen world, cases, graders, and what they measure."""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
