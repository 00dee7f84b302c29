"""The journal: the durable record of runs, enough to resume, replay and inspect them.

An agent without one loads of it no more than what a reply says.
"""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
