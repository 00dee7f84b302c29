"""The studio: one page to chat with agents, watch runs, decide, and see the results.

from moothall.studio import demo, gradio_user

space.add(gradio_user)
demo.launch()
"""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
