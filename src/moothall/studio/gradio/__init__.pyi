"""The public names of this package: `__init__.py` loads them from here."""

from moothall.studio.gradio.chat import GradioChat as GradioChat
from moothall.studio.gradio.chat import demo as demo
from moothall.studio.gradio.chat import gradio_user as gradio_user
