"""A ready studio, and the person at its page: made when one of them is first used."""

from __future__ import annotations

from moothall.studio.space import StudioUser
from moothall.studio.studio import Studio

demo: Studio = Studio()
"""A ready studio."""
gradio_user: StudioUser = demo.user
"""The person at its page, whose id is `User`."""
