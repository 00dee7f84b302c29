"""Spaces: they hold agents and deliver messages between them."""

from moothall.foundation.lazily import show_classes
from moothall.spaces.native import NativeSpace

__all__ = ["NativeSpace"]

show_classes(__name__)
