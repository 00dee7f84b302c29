"""The studio: one page to chat with agents, watch runs, decide, and see the results.

from moothall.studio import demo, gradio_user

space.add(gradio_user)
demo.launch()
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from moothall.foundation.lazily import show_classes

if TYPE_CHECKING:
    from moothall.studio.space import StudioUser
    from moothall.studio.studio import Studio as Studio

__all__ = ["Studio", "demo", "gradio_user"]

demo: Studio
"""A ready studio."""
gradio_user: StudioUser
"""The person at its page, whose id is `User`."""


@cache
def _ready() -> Studio:
    from moothall.studio.studio import Studio

    return Studio()


def __getattr__(name: str) -> Any:
    """Load `Studio`, and make the ready one, when it is first asked for."""
    if name == "Studio":
        from moothall.studio.studio import Studio

        globals()[name] = Studio
        show_classes(__name__)
        return Studio
    if name == "demo":
        return _ready()
    if name == "gradio_user":
        return _ready().user
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
