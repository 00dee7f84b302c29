"""A chat with the agents of a space, made of Gradio, on the extra `gradio`.

from moothall.studio.gradio import demo, gradio_user

space.add(gradio_user)
demo.launch()

The studio (`moothall.studio`) is the larger page, and needs no Gradio.
"""

from moothall.foundation.lazily import show_classes
from moothall.studio.gradio.chat import GradioChat
from moothall.studio.space import StudioUser

__all__ = ["GradioChat", "demo", "gradio_user"]

demo: GradioChat = GradioChat()
"""A ready chat."""
gradio_user: StudioUser = demo.user
"""The person at its page, whose id is `User`."""

show_classes(__name__)
