"""The studio: one page to chat with agents, watch runs, decide, and see the results.

from moothall.studio import demo, gradio_user

space.add(gradio_user)
demo.launch()
"""

from __future__ import annotations

from functools import cache

from moothall.studio.space import StudioUser
from moothall.studio.studio import Studio

__all__ = ["Studio", "demo", "gradio_user"]

demo: Studio
"""A ready studio."""
gradio_user: StudioUser
"""The person at its page, whose id is `User`."""


@cache
def _ready() -> Studio:
    return Studio()


def __getattr__(name: str) -> Studio | StudioUser:
    """Make the ready studio when it is first asked for."""
    if name == "demo":
        return _ready()
    if name == "gradio_user":
        return _ready().user
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
