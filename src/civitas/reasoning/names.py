"""The names that models call actions by.

Providers allow letters, digits, `_` and `-`, and 64 of them. The public names of actions may be
`block.action` or hold an agent's id, which is any text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

from civitas.action import Action

__all__ = ["MAX_NAME", "Shown", "is_safe", "safe_name", "safe_names"]

MAX_NAME = 64

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def is_safe(name: str) -> bool:
    """Whether every provider takes it as the name of an action."""
    return _SAFE.fullmatch(name) is not None


def safe_name(name: str) -> str:
    """A name that every provider takes, as near to this one as can be."""
    if is_safe(name):
        return name
    return _UNSAFE.sub("_", name)[:MAX_NAME] or "_"


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """The safe name of each public name, all different.

    A safe name is its own. Others whose safe forms coincide are told apart by a part of their
    hash, so that what one is called does not depend on the order.
    """
    public = list(dict.fromkeys(names))
    wanted = {name: safe_name(name) for name in public}
    times = Counter(wanted.values())
    found: dict[str, str] = {}
    for name, near in wanted.items():
        if near == name or times[near] == 1:
            found[name] = near
        else:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
            found[name] = f"{near[: MAX_NAME - 17]}_{digest[:16]}"
    # A hash in a name may be there because somebody put it there.
    taken: dict[str, str] = {}
    for name in sorted(found, key=lambda name: (name != found[name], name)):
        safe = found[name]
        number = 2
        while safe in taken:
            safe = f"{found[name][: MAX_NAME - 8]}_{number}"
            number += 1
        taken[safe] = name
        found[name] = safe
    return found


_NOTHING: dict[str, str] = {}


class Shown:
    """Actions as a model is shown them.

    Attributes:
        actions: them, under their safe names
        public: the public name of each name that is not itself public
    """

    __slots__ = ("actions", "public")

    def __init__(self, actions: list[Action]) -> None:
        by_name = {action.name: action for action in actions}
        if len(by_name) == len(actions) and all(map(_SAFE.fullmatch, by_name)):
            self.actions = actions
            self.public = _NOTHING
            return
        self.public = {}
        self.actions = []
        safe_of = safe_names(by_name)
        for name, action in by_name.items():
            safe = safe_of[name]
            if safe == name:
                self.actions.append(action)
            else:
                self.public[safe] = name
                self.actions.append(_renamed(action, safe))


def _renamed(action: Action, name: str) -> Action:
    return Action._described(
        name,
        action.function,
        action.description,
        action.parameters,
        terminal=action.terminal,
        access_policy=action.access_policy,
        idempotent=action.idempotent,
        timeout=action.timeout,
        help=action.help,
    )
