"""What an agent is made of, looked at when it is given."""

from __future__ import annotations

from civitas.errors import DefinitionError

__all__ = ["check_part"]


def check_part(part: object, names: tuple[str, ...], what: str, id: object) -> None:
    """Refuse what is no model, memory, … : it would only fail in the middle of a reply.

    Args:
        part: what was given
        names: what it has
        what: the argument
        id: whose it is to be

    Raises:
        DefinitionError: it has not all of these, or is a class
    """
    missing = [name for name in names if not hasattr(part, name)]
    if missing or isinstance(part, type):
        given = f"the class {part.__name__}" if isinstance(part, type) else repr(part)[:80]
        raise DefinitionError(
            f"agent {id!r}: {what}= needs an object with {', '.join(names)}, not {given}"
        )
