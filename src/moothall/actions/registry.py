"""Actions by name, as an agent's model may call them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Protocol

from moothall.actions.capability import Action
from moothall.foundation.errors import DefinitionError


class Offering(Protocol):
    """What registers all actions that it offers, such as an agent or `Skills`."""

    @property
    def offers(self) -> dict[str, Action]:
        """Its actions, by name."""
        ...


class _Mergeable(Offering, Protocol):
    @property
    def guidance(self) -> str: ...

    def merged_with(self, other: Any) -> _Mergeable: ...


class ActionSource(Protocol):
    """An agent whose actions come and go, such as those of a server."""

    id: str | int

    def server_actions(self) -> dict[str, Action]:
        """Return its actions of now."""
        ...

    async def get_ready(self) -> None:
        """Ask for its actions before a reply, if it has none yet."""
        ...


class ActionRegistry:
    """Actions by name."""

    guidance: Sequence[str] = ()  # what the prompt of a model says of them
    blocks: Sequence[Any] = ()  # what takes part in a loop, besides the actions that it offers
    sources: tuple[ActionSource, ...] = ()
    _mergeables: tuple[_Mergeable, ...] = ()  # what takes in more of its kind, such as `Skills`

    def __init__(self) -> None:
        self.actions: dict[str, Action] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self.actions) or 'no actions'}>"

    def register(self, action: Action | Callable[..., Any] | Offering) -> None:
        """Add an action; it replaces one of the same name.

        Args:
            action: what `Action.of` takes, or an agent or `Skills`, which register all they offer

        Raises:
            DefinitionError: the argument is not an action, or an agent's action has a taken name
        """
        source: Any = action
        # Not isinstance, by which Python looks for a protocol's members at each agent made.
        if callable(getattr(source, "server_actions", None)):
            self.sources = (*self.sources, source)
            return
        offers = getattr(action, "offers", None)
        if isinstance(offers, dict):
            if callable(getattr(source, "merged_with", None)):
                source = self._merge(source)
                offers = source.offers
            conflicts = sorted(offers.keys() & self.actions.keys())
            if conflicts:
                raise DefinitionError(
                    f"{action!r} offers {', '.join(conflicts)}, which the registry has already: "
                    "register its actions under other names, or give agent.as_action(name)"
                )
            if "say" in offers and getattr(source, "records_say", False):
                say = offers["say"]
                say.origin = say.origin._replace(agent=source)
            self.actions.update(offers)
            guidance = getattr(source, "guidance", "")  # a block's may be a method, for each run
            if isinstance(guidance, str) and guidance:
                self.guidance = (*self.guidance, guidance)
            elif callable(guidance):
                self.blocks = (*self.blocks, source)
        else:
            new_action = Action.of(action)  # type: ignore[arg-type]
            if new_action.is_unbound:
                method = f"thing.{new_action.name}"
                text = f"self is missing: give the method of an object, such as {method}"
                raise DefinitionError(f"action {new_action.name!r}: {text}")
            self.actions[new_action.name] = new_action

    def _merge(self, source: _Mergeable) -> _Mergeable:
        """Return what takes the place of what is registered of the same class, and of `source`."""
        for registered in self._mergeables:
            if type(registered) is type(source):
                source = registered.merged_with(source)
                for name, each in registered.offers.items():
                    if self.actions.get(name) is each:
                        del self.actions[name]
                self.guidance = [each for each in self.guidance if each != registered.guidance]
                self._mergeables = tuple(
                    each for each in self._mergeables if each is not registered
                )
        self._mergeables = (*self._mergeables, source)
        return source

    def get_action(self, name: str) -> Action | None:
        """Return the action of that name, or None."""
        action = self.actions.get(name)
        return self._all_actions().get(name) if action is None and self.sources else action

    def get_actions(self) -> list[Action]:
        """Return all registered actions."""
        return list((self._all_actions() if self.sources else self.actions).values())

    def _all_actions(self) -> dict[str, Action]:
        """Return the actions with those of the sources, each under a name of its own."""
        all_actions = dict(self.actions)
        for source in self.sources:
            for name, each in source.server_actions().items():
                if name in all_actions:  # `a_b` and `c` make the same name as `a` and `b_c`
                    each = copy(each)
                    digest = hashlib.sha256(f"{source.id}\0{name}".encode()).hexdigest()
                    each.name = name = f"{name[:240]}_{digest[:8]}"
                all_actions[name] = each
        return all_actions
