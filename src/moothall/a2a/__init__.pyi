"""The public names of this package: `__init__.py` loads them from here."""

from moothall.a2a.agent import A2AAgent as A2AAgent
