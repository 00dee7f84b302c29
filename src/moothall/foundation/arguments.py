"""Checks of arguments: unknown names of a constructor, whole numbers, one of some values."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

from moothall.foundation.errors import ConfigError, DefinitionError
from moothall.foundation.text import excerpt, nearest

T = TypeVar("T", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_OUR_NAMES: dict[str, tuple[str, ...]] = {
    "backstory": ("system_prompt",),
    "batch_size": ("concurrency",),
    "calls": ("model_calls",),
    "checkpointer": ("journal",),
    "context": ("deps",),
    "conversation_id": ("thread",),
    "cost": ("usd",),
    "dollars": ("usd",),
    "functions": ("actions",),
    "guardrails": ("check",),
    "handoffs": ("actions",),
    "human_input": ("approver",),
    "instructions": ("system_prompt",),
    "is_termination_msg": ("until",),
    "llm": ("model",),
    "max_concurrency": ("concurrency",),
    "max_iter": ("max_iterations",),
    "max_retries": ("tries",),
    "max_round": ("max_turns",),
    "max_steps": ("max_iterations",),
    "max_tokens": ("tokens",),
    "max_turns": ("max_iterations",),
    "max_workers": ("concurrency",),
    "members": ("agents",),
    "message_history": ("history", "thread"),
    "messages": ("history", "thread"),
    "metadata": ("tags",),
    "middleware": ("blocks",),
    "model_kwargs": ("options",),
    "model_settings": ("options",),
    "n_jobs": ("concurrency",),
    "num_retries": ("tries",),
    "output_cls": ("schema",),
    "output_guardrails": ("check",),
    "output_schema": ("schema",),
    "output_type": ("schema",),
    "output_validator": ("check",),
    "participants": ("agents",),
    "prompt": ("system_prompt",),
    "recursion_limit": ("max_iterations",),
    "response_format": ("schema",),
    "response_model": ("schema",),
    "response_schema": ("schema",),
    "result_type": ("schema",),
    "retries": ("tries",),
    "retry": ("tries",),
    "selector_func": ("next",),
    "session": ("thread",),
    "session_id": ("thread",),
    "speaker_selection_method": ("next",),
    "state_modifier": ("system_prompt",),
    "sub_agents": ("actions",),
    "system": ("system_prompt",),
    "system_message": ("system_prompt",),
    "termination_condition": ("until",),
    "thread_id": ("thread",),
    "timeout": ("seconds",),
    "toolkits": ("actions",),
    "tools": ("actions",),
    "toolsets": ("actions",),
    "usage_limits": ("budget",),
    "user_id": ("thread",),
}
"""Argument names of other libraries, and the names here; the first that there is, is meant."""
_REQUEST_FIELDS = ("max_output_tokens", "max_tokens", "seed", "stop", "temperature", "top_p")
"""Fields of requests to models, which agents do not have."""


@overload
def names_checked(target: T) -> T: ...
@overload
def names_checked(*, foreign_names: Mapping[str, str]) -> Callable[[T], T]: ...
def names_checked(target: Any = None, *, foreign_names: Mapping[str, str] | None = None) -> Any:
    """Make a class or method name the nearest known argument when it is given an unknown one.

    The constructor keeps its signature, so that type checkers and editors know the names.
    `foreign_names` has attributes of other libraries, and what each is called in the class.
    """
    if target is None:
        return lambda cls: names_checked(named_elsewhere(**(foreign_names or {}))(cls))
    if isinstance(target, type):
        target.__init__ = names_checked(target.__init__)  # type: ignore[misc]
        return target
    function: Callable[..., Any] = target

    @functools.wraps(function)
    def checked(self: Any, *args: Any, **keywords: Any) -> Any:
        try:
            return function(self, *args, **keywords)
        except TypeError as error:
            if isinstance(error, DefinitionError):
                raise
            is_constructor = function.__name__ == "__init__"
            misuse = unknown_argument_error(type(self) if is_constructor else function, keywords)
            misuse = misuse or _misplaced_error(
                type(self) if is_constructor else function, function, args
            )
            if misuse is None:
                raise
            raise misuse from None

    return checked


def takes_as(other: Callable[..., Any]) -> Callable[[T], T]:
    """Have `help` show a method with the parameters of another, which gets all its arguments.

    Each name of `**options: Unpack[Options]` is a parameter of its own; what is left out is None.
    """
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(other).parameters.values():
        names = _unpacked(other, each) if each.kind is each.VAR_KEYWORD else {}
        parameters += [
            inspect.Parameter(name, each.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in names.items()
        ] or [each]

    def with_signature(method: T) -> T:
        signature = inspect.signature(method).replace(parameters=parameters)
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    return with_signature


def unknown_argument_error(
    target: Any, names: Iterable[str], unpacked: Iterable[str] = (), owner: type | None = None
) -> DefinitionError | None:
    """Return the error for the first unknown argument given; None if all are known.

    `unpacked` are the names that the signature has as `**options: Unpack[…]`, and `owner` is the
    class whose method was called, which may inherit it.
    """
    parameters = _init_names(target) if isinstance(target, type) else _param_names(target)[0]
    parameters = [*dict.fromkeys((*parameters, *unpacked))]
    unknown = next((name for name in names if name not in parameters), None)
    if unknown is None:
        return None
    meant_names = (unknown, *_OUR_NAMES.get(unknown, ()))
    our_name = next((each for each in meant_names if each in parameters), None)
    method, in_method = _method_with(target, meant_names)
    of_owner = next((each for each in meant_names if owner and each in _init_names(owner)), None)
    if our_name is not None:
        hint = f": {unknown}= is {our_name}= here"
    elif unknown in _REQUEST_FIELDS and not {"model", "options"}.isdisjoint(parameters):
        hint = f": a reply or its model has it, such as reply(…, options={{{unknown!r}: …}})"
    elif method:
        hint = f": its {method}({in_method}=…) has"
    elif owner and of_owner:
        hint = f": it is given where the agent is made, {owner.__name__}(…, {of_owner}=…)"
    else:
        hint = nearest(unknown, parameters)
    name = f"{owner.__name__}.{target.__name__}" if owner else target.__qualname__
    return DefinitionError(f"{name} has no argument {unknown}={hint}")


def _misplaced_error(
    target: Any, function: Callable[..., Any], values: Sequence[object]
) -> DefinitionError | None:
    """Return the error for arguments without names where they need them; None if there are none."""
    _, *parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return None
    positional = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(values) <= len(positional):
        return None
    names = _param_names(function)[0][len(positional) :]
    examples = f", such as {' or '.join(f'{name}=' for name in names[:2])}" if names else ""
    return DefinitionError(
        f"{target.__qualname__}: write a name before {values[len(positional)]!r:.80}{examples}"
    )


def named_elsewhere(**names: str) -> Callable[[C], C]:
    """Have a class say what an attribute of other libraries, which it has not, is called here."""

    def with_names(cls: C) -> C:
        for name, here in names.items():
            setattr(cls, name, _MovedAttribute(name, here))
        return cls

    return with_names


class _MovedAttribute:
    """A missing attribute. With `__getattr__`, every other one would be found more slowly."""

    def __init__(self, name: str, new_name: str) -> None:
        self._name = name
        self._new_name = new_name

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(
            f"{owner.__name__} has no attribute {self._name!r}: "
            f"{self._name} is {self._new_name} here"
        )


def _method_with(target: Any, names: Sequence[str]) -> tuple[str, str]:
    """Return the method of a class that takes one of the arguments, and which; else empty texts.

    These are the methods that begin its work.
    """
    if isinstance(target, type):
        for method in ("reply", "run"):
            function = getattr(target, method, None)
            parameters = _param_names(function)[0] if inspect.isfunction(function) else []
            for name in names:
                if name in parameters:
                    return method, name
    return "", ""


def _init_names(cls: type) -> list[str]:
    """Return the names that a constructor takes, with those that it passes on to its bases."""
    names: list[str] = []
    for base in cls.__mro__:
        if "__init__" in vars(base):
            own, passes_on = _param_names(base.__init__)  # type: ignore[misc]
            names += own
            if not passes_on:
                break
    return names


def _param_names(function: Callable[..., Any]) -> tuple[list[str], bool]:
    """Return the names of parameters, and whether there are others by `**`.

    Those of `**limits: Unpack[Limits]` come before others without a place: it is about them.
    """
    parameters = [*inspect.signature(function).parameters.values()][1:]
    positional, unpacked, keyword_only = list[str](), list[str](), list[str]()
    for each in parameters:
        if each.kind is each.VAR_KEYWORD:
            unpacked += _unpacked(function, each)
        elif each.kind is not each.VAR_POSITIONAL:
            (keyword_only if each.kind is each.KEYWORD_ONLY else positional).append(each.name)
    return [*positional, *unpacked, *keyword_only], any(e.kind is e.VAR_KEYWORD for e in parameters)


def _unpacked(function: Callable[..., Any], parameter: inspect.Parameter) -> dict[str, str]:
    """Return the annotations, by name, of what `**options: Unpack[Options]` stands for."""
    options = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
    options_type = getattr(inspect.unwrap(function), "__globals__", {}).get(options)
    hints = getattr(options_type, "__annotations__", {})
    return {name: getattr(hint, "__forward_arg__", hint) for name, hint in hints.items()}


def check_integer(
    name: str, value: object, low: int = 1, high: int | None = None, *, optional: bool = False
) -> None:
    """Raise ConfigError unless a value is an int (no bool) in a range; `high` None: no bound."""
    if value is None and optional:
        return
    if type(value) is not int or value < low or (high is not None and value > high):
        bounds = f"from {low} up" if high is None else f"from {low} to {high}"
        raise ConfigError(f"{name} must be a whole number {bounds}, got {excerpt(value)}")


def check_seconds(name: str, value: Any, *, zero: bool = False, optional: bool = False) -> None:
    """Raise ConfigError unless a value is a finite number of seconds above 0, or also 0."""
    if value is None and optional:
        return
    is_number = type(value) in (int, float)
    if not is_number or not 0 <= value <= sys.float_info.max or not (value or zero):
        bounds = f"{'from 0 up' if zero else 'above 0'}{', or None' if optional else ''}"
        raise ConfigError(f"{name} must be a number of seconds {bounds}, got {excerpt(value)}")


def check_boolean(name: str, value: object) -> None:
    """Raise ConfigError unless a value is True or False."""
    if type(value) is not bool:
        raise ConfigError(f"{name} must be True or False, got {value!r:.80}")


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether calling the function returns a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def check_function(
    name: str, value: Any, *takes: str, plain: bool = False, optional: bool = False
) -> None:
    """Raise ConfigError unless a value can be called with these arguments, which are named.

    `plain` refuses an `async` function, too.
    """
    if value is None and optional:
        return
    if not callable(value):
        raise ConfigError(f"{name} must be a {'plain ' * plain}function, got {excerpt(value)}")
    if plain and is_async(value):
        raise ConfigError(f"{name} must be a plain function, got the async {value!r:.80}")
    if not can_take(value, len(takes)):
        function_name = getattr(value, "__qualname__", type(value).__qualname__)
        got = f"{function_name}{inspect.signature(value)}"
        raise ConfigError(f"{name} must be a function of ({', '.join(takes)}), got {got:.200}")


def can_take(function: Callable[..., Any], count: int, **keywords: object) -> bool:
    """Return whether a function can be called with so many arguments, as far as is known.

    `keywords` are further ones, by their names.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a builtin nobody knows the parameters
        return True
    try:
        signature.bind(*range(count), **keywords)
    except TypeError:
        return False
    return True


def check_path(name: str, value: object, kind: str = "file", *, optional: bool = False) -> None:
    """Raise ConfigError unless a value can be a path: a text, or an object with one."""
    if not is_path(value) and not (value is None and optional):
        raise ConfigError(f"{name} must be the path of a {kind}, got {excerpt(value)}")


def is_path(value: object) -> bool:
    """Return whether a value can be the path of a file: a text, or an object with one."""
    name = os.fspath(value) if isinstance(value, os.PathLike) else value
    try:
        return isinstance(name, str) and name != "" and b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:  # half a character
        return False


def check_text(
    name: str, value: object, choices: Collection[str] = (), *, optional: bool = False
) -> None:
    """Raise ConfigError unless a value is 1–255 printable characters; of choices, one of them."""
    if value is None and optional:
        return
    if choices and value not in choices:
        raise unknown_value_error(name, [*choices], value)
    if not isinstance(value, str) or not 0 < len(value) <= 255 or not value.isprintable():
        raise ConfigError(f"{name} must be 1–255 printable characters, got {excerpt(value)}")


def is_name(value: object) -> bool:
    """Return whether a value can name a person or a conversation: 1–255 characters of any script.

    Joiners, hard spaces and marks of direction are part of names.
    """
    return isinstance(value, str) and 0 < len(value) <= 255 and is_storable(value)


def is_storable(text: str) -> bool:
    """Return whether each store keeps a text as it is: it has no NUL and no half character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def check_name(name: str, value: object, *, optional: bool = False) -> None:
    """Raise ConfigError unless a value can name a person or a conversation."""
    if not (is_name(value) or (value is None and optional)):
        raise ConfigError(
            f"{name} must be a text of 1 to 255 characters without NUL, got {value!r:.80}"
        )


def unknown_value_error(name: str, choices: Sequence[str], value: object) -> ConfigError:
    """Return the error for an unknown value; it names the known ones."""
    *but_last, last = choices
    words = f"{', '.join(but_last)} or {last}" if but_last else last
    text = f"{name} must be {words}, got {value!r:.80}{nearest(str(value), choices)}"
    return ConfigError(text.lstrip())
