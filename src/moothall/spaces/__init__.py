"""Spaces: they hold agents and deliver messages between them."""

from moothall.spaces.native import NativeSpace

__all__ = ["NativeSpace"]
