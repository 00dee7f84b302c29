"""The blocks of citizens: needs, plan, mobility, social life, economy, other acts, and feed."""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
