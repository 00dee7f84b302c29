"""Spaces: where agents are, and how messages travel between them."""

from civitas.spaces.native import NativeSpace

__all__ = ["NativeSpace"]
