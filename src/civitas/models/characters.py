"""Halves of characters, which JSON can write: text with them is made one that can be encoded."""

from __future__ import annotations

__all__ = ["Characters", "whole"]


def whole(text: str) -> str:
    """The text, with `?` in place of each half of a character, which nothing could encode."""
    return text.encode("utf-8", "replace").decode()


class Characters:
    """Joins the halves of characters whose text comes in pieces.

    A server that counts in UTF-16 may cut between the two halves of one. What comes out, joined,
    is `whole` of what went in, joined.
    """

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """The piece, without a first half at its end, which is kept for the next."""
        if not piece or (not self._half and piece.isascii()):
            return piece
        if self._half:
            piece = self._half + piece
            self._half = ""
            if "\udc00" <= piece[1] <= "\udfff":
                pair = piece[:2].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
                piece = pair + piece[2:]
        if "\ud800" <= piece[-1] <= "\udbff":
            self._half = piece[-1]
            piece = piece[:-1]
        return whole(piece)

    def end(self) -> str:
        """What is left when nothing more comes."""
        left, self._half = self._half, ""
        return whole(left)
