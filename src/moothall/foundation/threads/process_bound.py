"""What belongs to the process that made it, since it has threads, files or connections."""

from __future__ import annotations

from typing import ClassVar, NoReturn, Self

from moothall.foundation.errors import DefinitionError


class ProcessBound:
    """Pickles and deep copies of it are refused, and the error says what to do in its place.

    A subclass states that with `remedy=`.
    """

    _remedy: ClassVar[str] = "make another one"

    def __init_subclass__(cls, *, remedy: str = "", **options: object) -> None:
        super().__init_subclass__(**options)
        if remedy:
            cls._remedy = remedy

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> NoReturn:
        raise DefinitionError(
            f"{self!r} belongs to the process that made it, and cannot be pickled or copied: "
            f"{self._remedy}"
        )
