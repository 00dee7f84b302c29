"""What orchestrators, spaces, doors and stores of others are built on, and moothall's own are.

`build.pyi` lists the names, in groups, and docs/build.md explains them; each is loaded when it is
first used.
"""

from __future__ import annotations

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
