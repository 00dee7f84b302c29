"""Actions: what an agent can do, described well enough for a person, an agent or a model to call.

Schema, help and argument checks come from a function's signature and docstring, or `parameters`.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

from moothall.arguments import unknown_argument
from moothall.errors import ConfigError, DefinitionError, InvalidArguments
from moothall.jsonvalue import copy_json
from moothall.signature import Signature, check_parameters, check_returns
from moothall.signature.schema import WrongSchema, check_schema, validator
from moothall.text import printable, shorten
from moothall.threads import is_async

AccessPolicy: TypeAlias = Literal["permitted", "denied", "requested"]

ACCESS_PERMITTED: Final = "permitted"
"""Any agent may use the action at any time."""
ACCESS_DENIED: Final = "denied"
"""No agent may use the action."""
ACCESS_REQUESTED: Final = "requested"
"""Each use awaits the answer of the agent's `request_permission`."""

_PARTS = ("name", "function", "description", "parameters")

F = TypeVar("F", bound=Callable[..., Any])


class ActionOptions(TypedDict, total=False):
    """The options of `@action` and `Action`. To add one, add an attribute of `Action`, too."""

    access_policy: AccessPolicy
    idempotent: bool
    timeout: float | None
    detached: bool
    help: Any


class MarkedOptions(ActionOptions, total=False):
    """The options of `@action`, with those that `Action` takes by position, too."""

    name: str | None
    terminal: bool


@overload
def action(function: F, /) -> F: ...
@overload
def action(**options: Unpack[MarkedOptions]) -> Callable[[F], F]: ...
def action(function: Callable[..., Any] | None = None, /, **options: Unpack[MarkedOptions]) -> Any:
    """Mark a method (or function) as an action; with or without parentheses.

    Args:
        name: the action's name; the method's name if left out
        help: replaces the whole generated help object
        access_policy: `ACCESS_PERMITTED`, `ACCESS_DENIED` or `ACCESS_REQUESTED`
        terminal: a successful call ends a model's run; its result is the reply
        idempotent: two calls have the effect of one, so a call may be repeated after a crash
        timeout: seconds that one call may take
        detached: a call may run for long, so the space stores its message in the inbox and
            acknowledges it to the message broker before the call runs

    Raises:
        DefinitionError: an option is not one of its values, or a parameter cannot be given by name
    """
    if unknown := unknown_argument(action, options, MarkedOptions.__annotations__):
        raise unknown

    def mark(function: F) -> F:
        where = getattr(function, "__qualname__", repr(function))
        if isinstance(function, str):
            raise DefinitionError(f"@action takes its options by name: @action(name={function!r})")
        if not callable(function) or isinstance(function, staticmethod | classmethod):
            raise DefinitionError(
                f"@action marks a function or method of an agent, not {function!r}; "
                "a static or class method has no agent to act for"
            )
        if (name := options.get("name")) is not None:
            _check_name(name, where)
        _check_options(where, options)
        # Whether the first parameter is `self` is known only on use; the kinds of the parameters
        # are known now, so a bad definition fails on import rather than on first call.
        check_parameters(function, bound_to_self=False, where=where)
        check_returns(function, where)
        function.__moothall_action__ = options  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


def _check_options(where: str, options: Mapping[str, Any]) -> None:
    access_policy = options.get("access_policy", ACCESS_PERMITTED)
    if access_policy not in (ACCESS_PERMITTED, ACCESS_DENIED, ACCESS_REQUESTED):
        wanted = "access_policy must be one of ACCESS_PERMITTED, ACCESS_DENIED, ACCESS_REQUESTED"
        raise DefinitionError(f"{where}: {wanted}, not {access_policy!r}")
    for option, given in options.items():
        if type(given) is not bool and isinstance(getattr(Action, option, None), bool):
            raise ConfigError(f"{where}: {option}= must be True or False, got {given!r:.80}")
    timeout = options.get("timeout")
    positive = isinstance(timeout, int | float) and timeout is not True and timeout > 0
    if timeout is not None and not positive:
        raise ConfigError(f"{where}: timeout= must be a number above 0, got {timeout!r}")
    try:
        copy_json(options.get("help"))
    except ValueError as error:
        raise ConfigError(f"{where}: help= must be a JSON value: {error}") from None


def _check_name(name: object, where: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 255:
        raise ConfigError(f"{where}: a name must be 1 to 255 characters, got {name!r}")
    if printable(name) != name:
        raise DefinitionError(f"{where}: the name {name!r} has characters that no text can carry")


class Action:
    """One capability: a name, a function, and what a caller must know about them.

    Args:
        name: the name by which callers call it
        function: what it does; plain or `async`
        description: what it does, in words
        parameters: the JSON schema of its arguments, an object schema
        terminal: a successful call ends a model's run; its result is the reply
        options: the other options of `@action`

    If `description` or `parameters` is left out, the docstring and the signature supply it.

    Raises:
        DefinitionError: an argument is not one of its values, or `parameters` is no object schema
    """

    name: str
    function: Callable[..., Any]
    # Each option of `ActionOptions`, with its default; an instance has those that were given.
    terminal: bool = False
    access_policy: AccessPolicy = ACCESS_PERMITTED
    idempotent: bool = False
    timeout: float | None = None
    detached: bool = False

    _help: Any = None
    _note: str = ""  # what whoever approves a call is told besides
    _description: str | None = None
    _parameters: dict[str, Any] | None = None
    _signature: Signature | None = None
    _validator: Any = None

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        description: str | None = None,
        parameters: dict[str, Any] | None = None,
        terminal: bool = False,
        **options: Unpack[ActionOptions],
    ) -> None:
        if wrong := [each for each in options if each not in ActionOptions.__annotations__]:
            unknown = unknown_argument(type(self), wrong, ActionOptions.__annotations__)
            raise unknown or TypeError(f"unexpected {wrong}")
        _check_name(name, "Action")
        where = f"action {name!r}"
        if not callable(function):
            raise ConfigError(f"{where}: function must be callable, not {function!r}")
        check_returns(function, where)
        given: dict[str, Any] = {"terminal": terminal, **options}
        _check_options(where, given)
        self._take(name, function, given)
        self._description = description
        self._parameters = parameters
        if parameters is None:
            check_parameters(function, bound_to_self=False, where=where)
        else:
            self._check_parameters(parameters)

    @classmethod
    def _described(
        cls,
        name: str,
        function: Callable[..., Any],
        description: str,
        parameters: dict[str, Any],
        **options: Any,
    ) -> Action:
        """Return an action with a schema that moothall made itself, and need not check."""
        made = cls(name, function, description, {}, **options)
        made._parameters = parameters
        return made

    def _check_parameters(self, parameters: object) -> None:
        where = f"action {self.name!r}: parameters"
        if not isinstance(parameters, dict):
            raise ConfigError(f"{where} must be a JSON schema (a dict), not {parameters!r}")
        try:
            if parameters:
                check_schema(parameters)
        except WrongSchema as error:
            raise DefinitionError(f"{where} is not a JSON schema: {error}") from None
        if (kind := parameters.get("type", "object")) != "object":
            raise ConfigError(f'{where} must be of type "object", got {kind!r:.80}')

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
            made: Action | None = source.__dict__.get("__moothall_made__")
            if made is not None and made.function is source:
                return made
        if not callable(source):
            if all(hasattr(source, part) for part in _PARTS):
                terminal = getattr(source, "terminal", False)
                return cls(*(getattr(source, part) for part in _PARTS), terminal)
            text = f"an action must be a function, an @action method or an Action, got {source!r}"
            raise DefinitionError(text)
        options: Any = {**getattr(source, "__moothall_action__", {})}
        named = options.pop("name", None) or getattr(source, "__name__", None)
        made = cls(named or type(source).__name__, source, **options)
        if isinstance(source, types.FunctionType):
            source.__dict__["__moothall_made__"] = made
        return made

    @classmethod
    def marked(cls, name: str, function: Callable[..., Any], options: MarkedOptions) -> Action:
        """Return the action of a method that `@action` has marked and checked."""
        _check_name(name, "Action")
        made = cls.__new__(cls)
        made._take(name, function, options)
        return made

    def _take(self, name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        for option, given in options.items():
            setattr(self, "_help" if option == "help" else option, given)
        self.name = name
        self.function = function

    @property
    def _options(self) -> dict[str, Any]:
        """Return its name and its options, for an action that differs in the rest."""
        return {option: getattr(self, option) for option in MarkedOptions.__annotations__}

    @property
    def signature(self) -> Signature:
        """The function's signature; raises DefinitionError if a type in it has no JSON form."""
        if self._signature is None:
            self._signature = Signature.of(self.function, bound_to_self=False)
        return self._signature

    @property
    def description(self) -> str:
        """What the action does, in words."""
        return self.signature.description if self._description is None else self._description

    @description.setter
    def description(self, text: str) -> None:
        self._description = text

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return self.signature.parameters if self._parameters is None else self._parameters

    @parameters.setter
    def parameters(self, schema: dict[str, Any]) -> None:
        self._check_parameters(schema)
        self._parameters = schema
        self._validator = None

    @property
    def help(self) -> Any:
        """What `help` shows of the action."""
        if self._help is not None:
            return self._help
        if self._parameters is None:
            return self.signature.help
        return {"description": self.description, "args": self._parameters.get("properties", {})}

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether `execute` returns a coroutine."""
        return is_async(self.function)

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
        if self._validator is None:
            self._validator = validator(self._parameters)
        try:
            errors = self._validator.iter_errors(args)
            wrong = min(errors, key=lambda error: len(error.absolute_path), default=None)
        except RecursionError:
            raise InvalidArguments(f'"{where or self.name}": nested too deep') from None
        if wrong is None:
            return args
        path = ".".join(map(str, wrong.absolute_path))
        at = f' argument "{path}"' if path else ""
        raise InvalidArguments(f'"{where or self.name}"{at}: {shorten(wrong.message, 200)}')

    def execute(self, /, **args: Any) -> Any:
        """Call the function; return a coroutine if it is `async`."""
        return self.function(**args)

    def __repr__(self) -> str:
        return f"<Action {self.name!r}>"


class _Offering(Protocol):
    @property
    def offers(self) -> dict[str, Action]: ...


class _Source(Protocol):
    id: str | int

    def _tools(self) -> dict[str, Action]: ...

    async def _get_ready(self) -> None: ...


class ActionRegistry:
    """Actions by name."""

    guidance: Sequence[str] = ()  # what the prompt of a model says of them
    _sources: tuple[_Source, ...] = ()  # agents whose actions come and go, such as a server's

    def __init__(self) -> None:
        self.actions: dict[str, Action] = {}

    def register(self, action: Action | Callable[..., Any] | _Offering) -> None:
        """Add an action; it replaces one of the same name.

        Args:
            action: what `Action.of` takes, or an agent or `Skills`, which register all they offer

        Raises:
            DefinitionError: the argument is not an action, or an agent's action has a taken name
        """
        source: Any = action
        if callable(getattr(source, "_tools", None)):
            self._sources = (*self._sources, source)
            return
        offers = getattr(action, "offers", None)
        if isinstance(offers, dict):
            taken = sorted(offers.keys() & self.actions.keys())
            if taken:
                raise DefinitionError(
                    f"{action!r} offers {', '.join(taken)}, which the registry has already: "
                    "register its actions under other names, or give agent.as_action(name)"
                )
            self.actions.update(offers)
            self.guidance = (*self.guidance, *filter(None, [getattr(action, "guidance", "")]))
        else:
            made = Action.of(action)  # type: ignore[arg-type]
            self.actions[made.name] = made

    def get_action(self, name: str) -> Action | None:
        """Return the action of that name, or None."""
        found = self.actions.get(name)
        return self._every().get(name) if found is None and self._sources else found

    def get_actions(self) -> list[Action]:
        """Return all registered actions."""
        return list((self._every() if self._sources else self.actions).values())

    def _every(self) -> dict[str, Action]:
        """Return the actions with those of the sources, each under a name of its own."""
        every = dict(self.actions)
        for source in self._sources:
            for name, each in source._tools().items():
                if name in every:  # `a_b` and `c` make the same name as `a` and `b_c`
                    each = copy(each)
                    digest = hashlib.sha256(f"{source.id}\0{name}".encode()).hexdigest()
                    each.name = name = f"{name[:240]}_{digest[:8]}"
                every[name] = each
        return every
