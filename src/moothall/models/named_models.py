"""The models that orders and arguments name: checks, keys and budgets."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from moothall.foundation.arguments import can_take
from moothall.foundation.errors import ConfigError, DefinitionError, ModelError, UnknownPrice

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.models.local.weights import ListedWeights
    from moothall.models.protocol import Model

_FITTING_METHODS: Final[WeakSet[FunctionType]] = WeakSet()
"""The functions behind methods `complete` that fit: reading a signature takes 25 µs an agent."""


def chosen_model(
    settings: Mapping[str, Any], model: str | None, key: str | None
) -> tuple[str, str | None]:
    """Return the name of the model to use, and its key."""
    # A key of the file is for the model of the file. A key of the environment is for any other
    # model: the file may be by somebody who wants the key.
    if model:
        return model, key
    if "model" in settings:
        return settings["model"], settings.get("key")
    return "local", None


class ModelName:
    """The name of a model, as `model` takes it, read without loading one.

    Args:
        text: the name
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @staticmethod
    def kinds() -> frozenset[str]:
        """Return what a name may begin with, before the colon."""
        from moothall.models.names import KINDS

        return KINDS

    @property
    def is_remote(self) -> bool:
        """Whether it names a model behind a server."""
        from moothall.models.names import is_remote

        return is_remote(self.text)

    @property
    def adaptations(self) -> tuple[str, ...]:
        """What its provider's server gets otherwise than others from the first request on."""
        from moothall.models.providers import ANY_SERVER, PROVIDERS, provider_of
        from moothall.models.remote.adapting import Adaptations

        provider = PROVIDERS.get(provider_of(self.text)[0] or "", ANY_SERVER)
        return (*Adaptations.of_provider(provider).in_words,)

    @property
    def missing_weights(self) -> ListedWeights | None:
        """The listed weights that it needs and that are not here; None if there are none."""
        from moothall.models.local.weights import DEFAULT_WEIGHTS, find_weights
        from moothall.models.names import check_spelling

        kind, target = check_spelling(self.text)
        if kind != "local":
            return None
        listed = find_weights(target or DEFAULT_WEIGHTS.name)
        return None if listed.is_here else listed

    def check_spelling(self) -> tuple[str, str]:
        """Return its kind and the rest; ConfigError if no model can have it."""
        from moothall.models.names import check_spelling

        try:
            return check_spelling(self.text)
        except ModelError as error:
            raise ConfigError(str(error)) from None

    def check_usable(self, key: str | None = None) -> None:
        """Raise ModelError or MissingExtra if the model cannot be used here, with this key."""
        from moothall.models.names import check_name

        check_name(self.text, key)


def made_model(name: str, key: str | None) -> Model:
    """Return the model of a name, with `key` for a server that takes one.

    Raise ConfigError if no model can have the name, and ModelError if it cannot be used here.
    """
    from moothall.models.names import model

    model_name = ModelName(name)
    model_name.check_spelling()
    model_name.check_usable(key)
    return model(name, key if model_name.is_remote else None)


def budget_of(command: str, *models: Model | None, **limits: float | None) -> Budget | None:
    """Return the budget of a command's run, by limits as `Budget` takes them; None for no limit."""
    stated_limits: dict[str, Any] = {
        name: limit for name, limit in limits.items() if limit is not None
    }
    if not stated_limits:
        return None
    from moothall.budget import Budget
    from moothall.models.wrappers.budgeted import BudgetedModel

    try:
        budget = Budget(**stated_limits, name=f"moothall {command}")
    except ConfigError as error:
        error.argument = f"max_{error.argument}"  # as the command's order has it
        raise
    # If money is limited, each model must have a price, which shows before anything is paid.
    for each in filter(None, models):
        try:
            BudgetedModel(each, budget)
        except UnknownPrice:
            text = (
                f"the price of {each.name!r:.200} is not known, so a limit in US dollars cannot be "
                "kept: limit its tokens or calls instead"
            )
            raise UnknownPrice(text, argument="max_usd") from None
    return budget


def check_model(owner: str, model: object, name: str = "model") -> None:
    """Refuse what is neither a model nor the name of one; no model is imported or loaded.

    Args:
        owner: whose argument it is, such as `agent 'clerk'`
        model: the model, or its name
        name: of the argument

    Raises:
        DefinitionError: it is no object with `complete`, or that takes other arguments
        ModelError: there is no model of that name; MissingExtra if a package is missing
    """
    if isinstance(model, str):
        from moothall.models.names import check_name

        try:
            check_name(model, needs_key=False)
        except ModelError as error:
            raise type(error)(f"{owner}: {error}") from None
        return
    complete: Any = getattr(model, "complete", None)
    is_own_method = type(complete) is MethodType and complete.__self__ is model
    method: Any = complete.__func__ if is_own_method else None
    is_plain = type(method) is FunctionType  # another object's hash and equality are its own
    if is_plain and method in _FITTING_METHODS:
        return
    if complete is None or isinstance(model, type):
        got = f"the class {model.__name__}" if isinstance(model, type) else repr(model)[:80]
        raise DefinitionError(
            f"{owner}: {name}= needs an object with complete, such as ScriptedModel([…]), or the "
            f"name of a model, not {got}"
        )
    if not can_take(complete, 1, actions=None):
        raise DefinitionError(
            f"{owner}: its {name} must have complete(messages, actions=None, schema=None), got "
            f"complete{inspect.signature(complete)}"
        )
    if is_plain:
        _FITTING_METHODS.add(method)
