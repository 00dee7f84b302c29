"""Marking functions as actions: access policies, the options of an action, `@action`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_args, overload

from moothall.actions.facts import NO_FACTS, Fact, check_facts
from moothall.actions.retry import Retry
from moothall.actions.signature import checked_parameters, refuse_generator
from moothall.foundation.arguments import check_boolean, check_seconds, unknown_argument_error
from moothall.foundation.errors import ConfigError, DefinitionError
from moothall.foundation.jsonvalue import copy_json
from moothall.foundation.text import printable

AccessPolicy: TypeAlias = Literal["permitted", "denied", "requested"]

ACCESS_PERMITTED: Final = "permitted"
"""Any agent may use the action at any time."""
ACCESS_DENIED: Final = "denied"
"""No agent may use the action."""
ACCESS_REQUESTED: Final = "requested"
"""Each use awaits the answer of the agent's `request_permission`."""

POLICIES: Final[tuple[AccessPolicy, ...]] = get_args(AccessPolicy)


def checked_policy(name: str, policy: object) -> AccessPolicy:
    """Return an access policy; ConfigError for another value of the argument `name`."""
    for each in POLICIES:
        if policy == each:
            return each
    policies = ", ".join(f"ACCESS_{each.upper()}" for each in POLICIES)
    raise ConfigError(f"{name} must be one of {policies}, got {policy!r:.80}")


F = TypeVar("F", bound=Callable[..., Any])


class ActionOptions(TypedDict, total=False):
    """The options of `@action` and `Action`. To add one, add an attribute of `Options`, too."""

    access_policy: AccessPolicy | None
    idempotent: bool
    timeout: float | None
    retries: Retry | None
    detached: bool
    polling: bool
    outside: bool
    own: bool | Sequence[str]
    guard: Sequence[str] | None
    addresses: Sequence[str] | None
    examples: Sequence[Mapping[str, Any]]
    deferred: bool | None
    facts: Mapping[str, Fact]
    help: Any


class MarkedOptions(ActionOptions, total=False):
    """The options of `@action`, with those that `Action` takes by position, too."""

    name: str | None
    terminal: bool


class Options:
    """The options that an action has: here their defaults, in an instance those that were given."""

    terminal: bool = False
    access_policy: AccessPolicy = ACCESS_PERMITTED
    idempotent: bool = False
    timeout: float | None = None
    retries: Retry | None = None
    detached: bool = False
    polling: bool = False
    outside: bool = False
    own: bool | Sequence[str] = False
    guard: Sequence[str] | None = None
    addresses: Sequence[str] | None = None
    examples: Sequence[Mapping[str, Any]] = ()
    deferred: bool | None = None
    facts: Mapping[str, Fact] = NO_FACTS


_BOOLEAN_OPTIONS: Final = {name for name, hint in Options.__annotations__.items() if hint == "bool"}


@overload
def action(function: F, /) -> F: ...
@overload
def action(**options: Unpack[MarkedOptions]) -> Callable[[F], F]: ...
def action(function: Callable[..., Any] | None = None, /, **options: Unpack[MarkedOptions]) -> Any:
    """Mark a method (or function) as an action; with or without parentheses.

    Args:
        name: the action's name; the method's name if left out
        help: replaces the whole generated help object
        access_policy: `ACCESS_PERMITTED`, `ACCESS_DENIED` or `ACCESS_REQUESTED`; if left out or
            None, everybody may call it
        terminal: a successful call ends a model's run; its result is the reply
        idempotent: two calls have the effect of one, so a call may be repeated after a crash
        timeout: seconds that one call may take, its retries included
        retries: after which failures it is called again, how often and when: `Retry(times=3)`. Only
            of an `idempotent` action, unless `Retry(no_effect=True)` says that those failures leave
            nothing behind
        polling: a model may call it again and again for the same result, as it waits for something
        detached: a call may run for long, so the space stores its message in the inbox and
            acknowledges it to the message broker before the call runs
        outside: its results come from outside: web pages, mail, files of others. A value that was
            read there does not count as the user's (docs/provenance.md)
        own: the fields of such results that the program's own system fills in, such as
            `("sender", "channel")` of a message in a closed workspace; True for a list of names.
            Each of their values counts, as a whole, as the program's
        guard: the names of the parameters that decide where an effect goes, such as
            `("to", "amount")`: once a thread has read anything from outside, their values must
            stand in a text of the user or the program, or the call is asked for. Without it, all
            parameters are guarded unless the action is `idempotent`; `guard=()` guards none
        addresses: the names of the parameters of which only the addresses in the text are guarded:
            links, mail addresses, numbers of accounts and telephones, paths. Without it, these are
            all that `guard` does not name, if it names any and the action is not `idempotent`;
            `addresses=()` for none, where the text goes to nobody else
        examples: arguments of calls that a model is shown with the description, each as it would
            write them, such as `[{"day": "2026-05-01", "seats": 2}]`
        deferred: whether a model is shown the action only once it has found it by `find_actions`;
            if left out, as its agent decides (docs/many-actions.md)
        facts: what whoever approves a call reads beside it, by name, such as
            `{"danger": "high", "cost_usd": 0.2}`; a `Rule` may match it

    Raises:
        DefinitionError: an option is not one of its values, a parameter cannot be given by name,
            or `guard` or `addresses` names none of its parameters
    """
    if unknown := unknown_argument_error(action, options, MarkedOptions.__annotations__):
        raise unknown

    def mark(function: F) -> F:
        label = getattr(function, "__qualname__", repr(function))
        if isinstance(function, str):
            raise DefinitionError(f"@action takes its options by name: @action(name={function!r})")
        if not callable(function) or isinstance(function, staticmethod | classmethod):
            raise DefinitionError(
                f"@action marks a function or method of an agent, not {function!r}; "
                "a static or class method has no agent to act for"
            )
        if (name := options.get("name")) is not None:
            check_name(name, label)
        check_options(label, options)
        # Whether the first parameter is `self` is known only on use; the kinds of the parameters
        # are known now, so a bad definition fails on import rather than on first call.
        parameters = checked_parameters(function, bound_to_self=False, label=label)
        check_guard(label, options, [each.name for each in parameters])
        refuse_generator(function, label)
        function.__moothall_action__ = options  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


def check_options(label: str, options: Mapping[str, Any]) -> None:
    """Raise unless each option has one of its values."""
    if options.get("access_policy") is not None:
        checked_policy(f"{label}: access_policy=", options["access_policy"])
    for option, value in options.items():
        if option in _BOOLEAN_OPTIONS:
            check_boolean(f"{label}: {option}=", value)
    if options.get("deferred") is not None:
        check_boolean(f"{label}: deferred=", options["deferred"])
    own_option = options.get("own", False)
    if not isinstance(own_option, bool) and (
        isinstance(own_option, str)
        or not isinstance(own_option, Sequence)
        or not all(isinstance(each, str) for each in own_option)
    ):
        fault = 'own= must be True, False or a list of fields, such as ("sender",)'
        raise ConfigError(f"{label}: {fault}, got {own_option!r:.80}")
    check_facts(f"{label}: facts=", options.get("facts", NO_FACTS))
    examples = options.get("examples", ())
    if isinstance(examples, str) or not isinstance(examples, Sequence):
        raise ConfigError(f"{label}: examples= must be a list of arguments, got {examples!r:.80}")
    for number, each in enumerate(examples):
        try:
            if not isinstance(each, Mapping) or not copy_json({**each}):
                raise ValueError(f"got {each!r:.80}")
        except ValueError as error:
            fault = 'must be the arguments of a call, such as {"a": 1}'
            raise ConfigError(f"{label}: examples[{number}] {fault}: {error}") from None
    check_seconds(f"{label}: timeout=", options.get("timeout"), optional=True)
    retries = options.get("retries")
    if retries is not None and not isinstance(retries, Retry):
        raise ConfigError(f"{label}: retries= must be a Retry, got {retries!r:.80}")
    if retries is not None and not (retries.no_effect or options.get("idempotent")):
        raise DefinitionError(
            f"{label}: retries= calls it again, which only an idempotent action bears: say "
            "idempotent=True, or Retry(no_effect=True) if its failures leave nothing behind"
        )
    try:
        copy_json(options.get("help"))
    except ValueError as error:
        raise ConfigError(f"{label}: help= must be a JSON value: {error}") from None


def check_guard(label: str, options: Mapping[str, Any], parameters: Sequence[str]) -> None:
    """Raise unless the values of `guard=` and `addresses=` are None or name parameters."""
    for option in ("guard", "addresses"):
        names = options.get(option)
        if names is None:
            continue
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise ConfigError(
                f"{label}: {option}= must be a list of parameters, "
                f'such as ("to",), got {names!r:.80}'
            )
        for name in names:
            if name not in parameters:
                parameter_text = ", ".join(parameters) or "none"
                raise ConfigError(
                    f"{label}: {option}= must name parameters of the action, got {name!r:.80}; "
                    f"it has {parameter_text}"
                )


def check_name(name: object, label: str) -> None:
    """Raise unless the value can be the name of an action."""
    if not isinstance(name, str) or not 0 < len(name) <= 255:
        raise ConfigError(f"{label}: a name must be 1 to 255 characters, got {name!r}")
    if printable(name) != name:
        raise DefinitionError(f"{label}: the name {name!r} has characters that no text can carry")
