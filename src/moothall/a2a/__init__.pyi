"""The names of `__init__.py` for type checkers and editors."""

from moothall.a2a.agent import A2AAgent as A2AAgent
