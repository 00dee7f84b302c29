"""Research: plan, research, update, narrate, evaluate, until the objectives are understood."""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
