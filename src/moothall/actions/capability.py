"""An action: a function, and what a caller must know about it."""

from __future__ import annotations

import functools
import json
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self, Unpack

from moothall.actions.marking import (
    ActionOptions,
    MarkedOptions,
    Options,
    check_guard,
    check_name,
    check_options,
)
from moothall.actions.retry import with_retries
from moothall.actions.signature import Signature, checked_parameters, refuse_generator
from moothall.actions.signature.schema import SchemaValidator, WrongSchema
from moothall.foundation.arguments import is_async, unknown_argument_error
from moothall.foundation.errors import ConfigError, DefinitionError, InvalidArguments
from moothall.foundation.jsonvalue import copy_json
from moothall.foundation.text import shorten

_ACTION_ATTRIBUTES = ("name", "function", "description", "parameters")


class ActionOrigin(NamedTuple):
    """Where an action comes from, beside what the program says of it."""

    server: str = ""  # the server, or the agent elsewhere, that it is of
    described_by: str = ""  # who wrote its description and schema, if that is not the program
    note: str = ""  # for the approver of a call
    takes_listed_values: bool = False  # whether it takes only values that its description lists
    agent: Any = None  # the agent that it asks, whose own record goes on with a call cut off
    is_part: bool = False  # whether that record is a part of the run that asks
    in_background: bool = False  # whether a call of it gives an id at once
    may_return_arguments: bool = True  # whether a result may be made of the arguments
    adds_actions: bool = False  # whether a result adds actions that the model can call next


class Action(Options):
    """One capability: a name, a function, and what a caller must know about them.

    Args:
        name: the name by which callers call it
        function: what it does; plain or `async`
        description: what it does, in words
        parameters: the JSON schema of its arguments, an object schema
        terminal: a successful call ends a model's run; its result is the reply
        options: the other options of `@action`

    Attributes:
        origin: where it comes from; moothall sets it for the actions of servers and other agents

    If `description` or `parameters` is left out, the docstring and the signature supply it.

    Raises:
        DefinitionError: an argument is not one of its values, or `parameters` is no object schema
    """

    name: str
    function: Callable[..., Any]
    origin: ActionOrigin = ActionOrigin()
    _help: Any = None
    is_unbound: bool = False  # whether it is the method of a class, which an agent can only ask for
    _description: str | None = None
    _parameters: dict[str, Any] | None = None
    _validator: Any = None

    LEFT_TO_CALLER: ClassVar[str] = "(the caller executes this call)"
    """The result of a call that the caller executes, until the caller sends the real result."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        description: str | None = None,
        parameters: dict[str, Any] | None = None,
        terminal: bool = False,
        **options: Unpack[ActionOptions],
    ) -> None:
        if unknown_names := [each for each in options if each not in ActionOptions.__annotations__]:
            unknown = unknown_argument_error(
                type(self), unknown_names, ActionOptions.__annotations__
            )
            raise unknown or TypeError(f"unexpected {unknown_names}")
        check_name(name, "Action")
        label = f"action {name!r}"
        if not isinstance(description, str | None):
            raise ConfigError(f"{label}: description must be a text, got {description!r:.80}")
        if not callable(function):
            raise ConfigError(f"{label}: function must be callable, not {function!r}")
        refuse_generator(function, label)
        values: dict[str, Any] = {"terminal": terminal, **options}
        check_options(label, values)
        self._set_options(name, function, values)
        self._description = description
        self._parameters = parameters
        if parameters is None:
            own_parameters = checked_parameters(function, bound_to_self=False, label=label)
            self.is_unbound = bool(own_parameters) and own_parameters[0].name == "self"
            check_guard(label, values, [each.name for each in own_parameters])
        else:
            self._check_parameters(parameters)
            check_guard(label, values, list(parameters.get("properties", ())))

    @classmethod
    def unchecked(
        cls,
        name: str,
        function: Callable[..., Any],
        description: str,
        parameters: dict[str, Any],
        **options: Any,
    ) -> Self:
        """Return an action whose schema is known to be one, and not checked."""
        guard, addresses = options.pop("guard", None), options.pop("addresses", None)
        action = cls(name, function, description, {}, **options)
        action._parameters, action.guard, action.addresses = parameters, guard, addresses
        return action

    def changed(self, function: Callable[..., Any], **options: Any) -> Action:
        """Return an action that is described as this one, with another function and options."""
        options = {**self._options, **options}
        action = Action.unchecked(
            function=function, description=self.description, parameters=self.parameters, **options
        )
        origin = self.origin
        action.origin = ActionOrigin(
            note=origin.note, takes_listed_values=origin.takes_listed_values
        )
        return action

    def _check_parameters(self, parameters: object) -> None:
        label = f"action {self.name!r}: parameters"
        if not isinstance(parameters, dict):
            raise ConfigError(f"{label} must be a JSON schema (a dict), not {parameters!r}")
        try:
            self._validator = SchemaValidator(parameters) if parameters else None
        except WrongSchema as error:
            raise DefinitionError(f"{label} is not a JSON schema: {error}") from None
        if (kind := parameters.get("type", "object")) != "object":
            raise ConfigError(f'{label} must be of type "object", got {kind!r:.80}')

    @classmethod
    def of(cls, source: Action | Callable[..., Any]) -> Action:
        """Return the action of a function or `@action` method, made once; an Action stays as it is.

        An object of another class also counts as an action if it has `name`, `function`,
        `description`, `parameters`, and perhaps `terminal`.

        Raises:
            DefinitionError: `source` is not an action, or a parameter cannot be given by name
        """
        if isinstance(source, Action):
            return source
        if isinstance(source, types.FunctionType):
            action: Action | None = source.__dict__.get("__moothall_made__")
            if action is not None and action.function is source:
                return action
        if not callable(source):
            if all(hasattr(source, part) for part in _ACTION_ATTRIBUTES):
                terminal = getattr(source, "terminal", False)
                return cls(*(getattr(source, part) for part in _ACTION_ATTRIBUTES), terminal)
            text = f"an action must be a function, an @action method or an Action, got {source!r}"
            raise DefinitionError(text)
        options: Any = {**getattr(source, "__moothall_action__", {})}
        unwrapped: Any = source
        while isinstance(unwrapped, functools.partial):
            unwrapped = unwrapped.func
        name = options.pop("name", None) or getattr(unwrapped, "__name__", None)
        action = cls(name or type(source).__name__, source, **options)
        if isinstance(source, types.FunctionType):
            source.__dict__["__moothall_made__"] = action
        return action

    @classmethod
    def marked(cls, name: str, function: Callable[..., Any], options: MarkedOptions) -> Action:
        """Return the action of a method that `@action` has marked and checked."""
        action = cls.__new__(cls)
        action._set_options(name, function, options)
        return action

    def _set_options(
        self, name: str, function: Callable[..., Any], options: Mapping[str, Any]
    ) -> None:
        for option, value in options.items():
            if option != "access_policy" or value is not None:  # None states none
                setattr(self, "_help" if option == "help" else option, value)
        self.name = name
        self.function = function

    @property
    def _options(self) -> dict[str, Any]:
        """Return its name and its options, for an action that differs in the rest."""
        return {option: getattr(self, option) for option in MarkedOptions.__annotations__}

    @functools.cached_property
    def signature(self) -> Signature:
        """The function's signature; raises DefinitionError if a type in it has no JSON form."""
        return Signature.of(self.function, bound_to_self=False)

    @property
    def description(self) -> str:
        """What the action does, in words, with its examples."""
        text = self.signature.description if self._description is None else self._description
        return f"{text}\n\n{self._examples_text}" if self.examples else text

    @description.setter
    def description(self, text: str) -> None:
        self._description = text

    @functools.cached_property
    def _examples_text(self) -> str:
        """Its examples as a model reads them; DefinitionError if one does not fit."""
        for number, each in enumerate(self.examples):
            try:
                self.check(copy_json({**each}))
            except InvalidArguments as error:
                raise DefinitionError(f"examples[{number}] does not fit: {error}") from None
        lines = [json.dumps({**each}, ensure_ascii=False) for each in self.examples]
        return "\n".join(("Examples of its arguments:", *lines))

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return self.signature.parameters if self._parameters is None else self._parameters

    @parameters.setter
    def parameters(self, schema: dict[str, Any]) -> None:
        self._check_parameters(schema)
        self._parameters = schema

    @property
    def returned(self) -> dict[str, Any] | None:
        """The JSON schema of what it returns; None if the function's annotation does not say it."""
        try:
            return self.signature.returned
        except DefinitionError:  # a type of its parameters, for which a schema is given
            return None

    @property
    def help(self) -> Any:
        """What `help` shows of the action."""
        if self._help is not None:
            return self._help
        if self._parameters is None:
            examples = {"examples": [copy_json({**each}) for each in self.examples]}
            own_description = (
                {} if self._description is None else {"description": self._description}
            )
            details = self.signature.help | own_description | (examples if self.examples else {})
        else:
            args = self._parameters.get("properties", {})
            details = {"description": self.description, "args": args}
        return details | ({"facts": {**self.facts}} if self.facts else {})

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether `execute` returns a coroutine."""
        return is_async(self.function)

    def make_validator(self, schema: dict[str, Any]) -> SchemaValidator:
        """Return what checks its arguments; called once, if it has a schema of its own."""
        return SchemaValidator(schema)

    def check(self, args: dict[str, Any], where: str | None = None) -> dict[str, Any]:
        """Return the keyword arguments for a call with `args`, converted to the annotated types.

        Args:
            args: JSON values by parameter name
            where: how an error names the action; its name if left out

        Raises:
            InvalidArguments: one is missing, unexpected or of the wrong type
        """
        if self._parameters is None:
            return self.signature.check(args, where or self.name)
        if not self._parameters:
            return args
        if self._validator is None:
            self._validator = self.make_validator(self._parameters)
        fault = self._validator.wrong(args)
        if fault is None:
            return args
        path = ".".join(map(str, fault.path))
        place = f' argument "{path}"' if path else ""
        text = f'"{where or self.name}"{place}: {shorten(fault.reason, 200)}'
        raise InvalidArguments(text, argument=fault.argument)

    @property
    def guarded(self) -> Sequence[str] | None:
        """The parameters whose values are guarded; None for all of them."""
        return () if self.guard is None and self.idempotent else self.guard

    @property
    def addressed(self) -> Sequence[str] | None:
        """The parameters whose addresses are guarded; None for all that are not `guarded`."""
        if self.addresses is None:
            return None if self.guard and not self.idempotent else ()
        return self.addresses

    def execute(self, /, **args: Any) -> Any:
        """Call the function; return a coroutine if it is `async`."""
        return self.with_retries(**args)

    @functools.cached_property
    def may_wait_in_thread(self) -> bool:
        """Whether a call waits in its thread, so that a cancelled one must not begin later."""
        return self.retries is not None

    @functools.cached_property
    def with_retries(self) -> Callable[..., Any]:
        """The function, with its retries."""
        if self.retries is None:
            return self.function
        return with_retries(self.function, self.retries, self.name)

    @functools.cached_property
    def injected(self) -> Mapping[str, type]:
        """The parameters that the callee's side fills in, with their classes."""
        try:
            return self.signature.injected
        except DefinitionError:
            return {}  # its parameters were given explicitly: the signature is unusable

    def get_ready(self) -> None:
        """Make its description and schema, and what checks its arguments."""
        _ = self.description, self.parameters
        with suppress(InvalidArguments):
            self.check({})

    def check_described(self, agent: object) -> None:
        """Raise DefinitionError if it cannot be described to the model of an agent."""
        try:
            if self._parameters is None or self._description is None:
                _ = self.signature
            if self.examples:
                _ = self.description
        except DefinitionError as error:
            raise DefinitionError(f'agent {agent!r} cannot use "{self.name}": {error}') from error

    @classmethod
    def left_to_caller(cls, name: str, description: str, parameters: dict[str, Any]) -> Action:
        """Return an action that the caller executes: the reply ends with a call of it.

        Nobody knows what it reads; the caller guards what it does.
        """
        return cls(name, _leave_to_caller, description, parameters, True, outside=True, guard=())

    def __repr__(self) -> str:
        return f"<Action {self.name!r}>"


def _leave_to_caller(**args: Any) -> str:
    return Action.LEFT_TO_CALLER


def without_parameter(action: Action, name: str) -> Action:
    """Return a copy of an action that does not take a parameter."""
    schema = action.parameters
    properties = {
        each: property_schema
        for each, property_schema in schema["properties"].items()
        if each != name
    }
    new_action = copy(action)
    new_action._parameters, new_action._validator = {**schema, "properties": properties}, None
    return new_action
