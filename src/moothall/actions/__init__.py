"""Actions: what an agent can do, described well enough for a person, an agent or a model to call.

Schema, help and argument checks come from a function's signature and docstring, or `parameters`.
"""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
