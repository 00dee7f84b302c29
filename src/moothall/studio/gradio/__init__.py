"""A chat with the agents of a space, made of Gradio, on the extra `gradio`.

from moothall.studio.gradio import demo, gradio_user

space.add(gradio_user)
demo.launch()

The studio (`moothall.studio`) is the larger page, and needs no Gradio.
"""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
