"""Spaces: they hold agents and deliver messages between them."""

from civitas.spaces.native import NativeSpace

__all__ = ["NativeSpace"]
