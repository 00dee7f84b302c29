"""moothall: agents that talk, act and check each other's work, in one vocabulary.

`__init__.pyi` lists the public names, for type checkers and editors too; each is loaded when it
is first used.
"""

from __future__ import annotations

import sys

from moothall.foundation.lazily import homes_of, lazily

__version__ = "0.1.0"
__getattr__, __dir__ = lazily(__name__)


class _Package(type(sys)):  # type: ignore[misc]  # `types` would be imported for it alone
    """Makes `__all__` of what is installed."""

    @property
    def __all__(self) -> list[str]:
        """The public names that this installation has, for `from moothall import *`."""
        import importlib

        homes = homes_of(__name__)
        try:
            importlib.import_module("moothall.society.arrays")
        except ImportError:  # no extra `society`: the star would fail at its first name
            homes = {name: home for name, home in homes.items() if "moothall.society" not in home}
        return ["__version__", *sorted(homes)]


sys.modules[__name__].__class__ = _Package

if "ipykernel" in sys.modules:
    from moothall.foundation.threads.cells import wake_at_signals

    wake_at_signals()
