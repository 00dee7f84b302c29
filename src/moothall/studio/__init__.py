"""The studio: one page to chat with agents, watch runs, decide, and see the results.

from moothall.studio import demo, gradio_user

space.add(gradio_user)
demo.launch()
"""

from moothall.studio.space import StudioUser
from moothall.studio.studio import Studio

__all__ = ["Studio", "demo", "gradio_user"]

demo: Studio = Studio()
gradio_user: StudioUser = demo.user
