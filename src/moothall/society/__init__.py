"""Societies: citizens in virtual time, with their blocks, city, services and experiments."""

from moothall.foundation.lazily import lazily

__getattr__, __dir__ = lazily(__name__)
