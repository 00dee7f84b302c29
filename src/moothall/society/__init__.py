"""Societies: citizens in virtual time, with their blocks, city, services and experiments."""

from moothall.build import lazily

__getattr__, __dir__ = lazily(__name__)
