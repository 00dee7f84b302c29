"""What commands of other packages are built on: options, a journal, the screen, Ctrl-C."""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
