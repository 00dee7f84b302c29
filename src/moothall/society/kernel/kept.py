"""What the parts of a model keep between two steps, as part of a society's state.

A part, or owner, is a block, a service, the places, the network, the function of facts, a metric,
an agent or the society itself. It says what it keeps in `keeps`, or by `state_dict`. All else that
is the user's may not change in a step: else it would be lost in silence.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, TypeVar

from moothall import Agent, StateError
from moothall.build import Space, is_ours
from moothall.society.arrays import np

TOKEN_ATTRIBUTE: Final = "_society_token"
"""The attribute in which what a society lives with has the `Token` of that society."""
_OWN_NAMES: Final = "_own_names"
_MAX_DEPTH: Final = 8
_STATELESS_TYPES: Final = (
    *(type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, logging.Logger),
)
_PLAIN_TYPES: Final = (type(None), bool, int, float, str, bytes)
_RUNNING_TYPES: Final = (GeneratorType, CoroutineType, AsyncGeneratorType)
_RUNNING: Final = "running"
"""The digest of what holds something of which nobody can say how far it has run."""
Init = TypeVar("Init", bound=Callable[..., None])


class Token:
    """Stands for a society in what it lives with, in this process alone."""

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return type(None), ()

    def __deepcopy__(self, copied: object) -> Token:
        return self


def sets_own(init: Init) -> Init:
    """Return an `__init__` of ours that notes which attributes it sets: the others are a user's."""

    @functools.wraps(init)
    def noting_init(self: Any, *args: Any, **options: Any) -> None:
        attributes = vars(self)
        before = {*attributes}
        init(self, *args, **options)
        earlier_names = attributes.get(_OWN_NAMES, frozenset())
        attributes[_OWN_NAMES] = earlier_names | attributes.keys() - before

    return noting_init  # type: ignore[return-value]


def states_of(owners: Mapping[str, Any], first: Mapping[tuple[str, str], object]) -> dict[str, Any]:
    """Return what owners keep, as JSON data by their keys: by `state_dict`, or as `keeps` says.

    Raises:
        StateError: what an owner keeps has no JSON form, or another attribute has changed since
            `first`
    """
    check_unkept(owners, first)
    own_states: dict[str, object] = {}
    kept_forms: dict[str, object] = {}
    for key, owner in owners.items():
        if has_own_state_dict(owner):
            own_states[key] = owner.state_dict()
            continue
        values = _kept_values(owner)
        kept_forms[key] = forms = {name: _json_form(value) for name, value in values.items()}
        if without := [name for name, form in forms.items() if not form]:
            raise StateError(
                f"{title_of(key, owner)} keeps {without[0]!r} "
                f"({type(values[without[0]]).__name__}), which has no JSON form: make it of "
                "numbers, texts, lists, dicts by text or arrays of numbers, or give its class "
                "state_dict() and load_state_dict()"
            )
    return {"states": own_states, "kept": kept_forms}


def load_states(owners: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    """Restore what `states_of` returned; what an owner has begun to keep later goes.

    Raises:
        StateError: something is there no more that has kept anything
    """
    states, kept_by_key = (recorded.get(name, {}) for name in ("states", "kept"))
    for key in [*states, *(key for key, forms in kept_by_key.items() if forms)]:
        if key not in owners:
            name = f"block {key}" if key.isdecimal() else key
            raise StateError(f"the state has what {name} kept, and the society has no such part")
    for key, state in states.items():
        owners[key].load_state_dict(state)
    for key, owner in owners.items():
        if has_own_state_dict(owner):
            continue
        forms = kept_by_key.get(key, {})
        root = root_of(owner)
        for name in _kept_values(owner).keys() - forms.keys():
            delattr(root, name)
        for name, form in forms.items():
            setattr(root, name, _read_form(form))


def check_unkept(owners: Mapping[str, Any], first: Mapping[tuple[str, str], object]) -> None:
    """Check that nothing has changed that no state keeps. Raises StateError, which names it."""
    now = digests_of(owners)
    for key, name in now.keys() | first.keys():
        if key not in owners:
            continue
        owner, digest = owners[key], now.get((key, name))
        title = title_of(key, owner)
        if digest == _RUNNING:
            kind = type(dict(_unkept(owner))[name]).__name__
            raise StateError(
                f"{title} has in {name!r} ({kind}) something that runs, as generators do, and no "
                "state can say how far it has come: draw from rows or draws, or keep a number"
            )
        if digest == first.get((key, name)):
            continue
        if isinstance(root_of(owner), FunctionType) or type(owner) is dict:
            raise StateError(
                f"{title} has changed its {name!r}, and a function or a dict has no state: make it "
                f"an object whose class says keeps = ({name!r},)"
            )
        raise StateError(
            f"{title} has changed its {name!r}, which is in no state: write keeps = ({name!r},) in "
            f"the class {type(root_of(owner)).__name__}, or give it state_dict() and "
            "load_state_dict(); a number of each citizen is a column, one of each place a layer"
        )


def digests_of(owners: Mapping[str, object]) -> dict[tuple[str, str], object]:
    """Return a digest of each attribute that no state keeps, which no step should change."""
    return {
        (key, name): _digest(value)
        for key, owner in owners.items()
        if not has_own_state_dict(owner)
        for name, value in _unkept(owner)
    }


def state_hash(owner: object) -> int:
    """Return a hash of all that an owner keeps, and of what it should not change."""
    forms = {name: _json_form(value) for name, value in _kept_values(owner).items()}
    return hash(
        json.dumps([forms, sorted(map(str, digests_of({"": owner}).items()))], default=repr)
    )


def blocks_by_number(blocks: Iterable[object]) -> dict[str, Any]:
    """Return the blocks that may keep something, with their numbers as keys."""
    return {str(number): each for number, each in enumerate(blocks) if not is_ours(type(each))}


def owners_of_agent(agent: Agent, id: str) -> dict[str, Any]:
    """Return an agent, unless it says itself what it keeps, and its blocks, as owners."""
    if hasattr(agent, "state_dict"):
        return blocks_by_number(agent.blocks)
    owners = blocks_by_number(agent.blocks) | {f"agent {id!r}": agent}
    memory = agent.memory
    # Only a citizen's memory says in the names of its class what is ours.
    is_own = hasattr(memory, "status") and not is_ours(type(memory))
    if is_own and not has_own_state_dict(memory):
        owners[f"the memory of agent {id!r}"] = memory
    return owners


def has_own_state_dict(owner: object) -> bool:
    """Return whether an owner, but a society, has a `state_dict` of the user's own."""
    method = getattr(type(owner), "state_dict", None)
    return method is not None and not is_ours(method) and not isinstance(owner, Space)


def title_of(key: str, owner: Any) -> str:
    """Return what an owner is called in errors."""
    return f"block {owner.name!r}" if key.isdecimal() else key


def root_of(owner: object) -> Any:
    """Return what has the attributes of an owner: of a bound method its object."""
    while True:
        if isinstance(owner, functools.partial):
            owner = owner.func
        elif isinstance(owner, MethodType):
            owner = owner.__self__
        else:
            return owner


# -- the attributes of an owner --------------------------------------------------------------------


def own_attributes(owner: object) -> dict[str, Any]:
    """Return the attributes of an object that its user has set, by name."""
    kind: Any = type(owner)
    attributes = getattr(owner, "__dict__", None)
    values = {}
    if type(attributes) is dict:
        ours = _names_of_class(kind) | attributes.get(_OWN_NAMES, frozenset())
        values = {name: value for name, value in attributes.items() if name not in ours}
    slots = (name for name in _slots_of_class(kind) if hasattr(owner, name))
    return {**values, **{name: getattr(owner, name) for name in slots}}


def _kept_values(owner: object) -> dict[str, Any]:
    """Return what an owner keeps by its `keeps`, by name, of what is there."""
    root = root_of(owner)
    names = () if isinstance(root, type | FunctionType | dict) else _keeps(root)
    return {name: getattr(root, name) for name in names if hasattr(root, name)}


def _keeps(root: Any) -> tuple[str, ...]:
    """Return what an object and its classes say in `keeps`."""
    names: dict[str, None] = {}
    for each in (vars(root) if hasattr(root, "__dict__") else {}, *map(vars, type(root).__mro__)):
        keeps = each.get("keeps", ())
        if not isinstance(keeps, tuple | list) or not all(isinstance(n, str) for n in keeps):
            raise StateError(
                f"{type(root).__name__}: keeps must be names of attributes, such as "
                f'("orders",), got {keeps!r:.80}'
            )
        names |= dict.fromkeys(keeps)
    return (*names,)


def _unkept(owner: Any) -> Iterator[tuple[str, object]]:
    """Yield what an owner has beside what it keeps and what our classes give it, by name."""
    yield from _arguments(owner).items()
    root = root_of(owner)
    if isinstance(root, type):
        return
    if type(root) is dict:
        yield from ((name, value) for name, value in root.items() if type(name) is str)
        return
    keeps = () if isinstance(root, FunctionType) else _keeps(root)
    yield from ((name, v) for name, v in own_attributes(root).items() if name not in keeps)


def _arguments(owner: object) -> dict[str, object]:
    """Return what a function is bound to, and its outer variables."""
    bound: dict[object, object] = {}
    while isinstance(owner, functools.partial):
        bound = dict(enumerate(owner.args, 1)) | owner.keywords | bound
        owner = owner.func
    if not isinstance(owner, FunctionType):
        return {str(name): value for name, value in bound.items()}
    code, values = owner.__code__, owner.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    bound = dict(zip(names, values, strict=True)) | (owner.__kwdefaults__ or {}) | bound
    for name, cell in zip(code.co_freevars, owner.__closure__ or (), strict=True):
        try:
            bound[name] = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    return {str(name): value for name, value in bound.items()}


@functools.cache
def _names_of_class(kind: type) -> frozenset[str]:
    """Return the names that our classes declare, or give an object later, as a cached property."""
    ours = [vars(each) for each in kind.__mro__ if is_ours(each)]
    names = {name for each in ours for name in (*each, *each.get("__annotations__", ()))}
    # Of a number that a ledger may keep.
    names |= {getattr(part, "stored_name", "") for each in ours for part in each.values()}
    return frozenset(names - {"keeps"} | {TOKEN_ATTRIBUTE, _OWN_NAMES, "keeps"})


@functools.cache
def _slots_of_class(kind: type) -> tuple[str, ...]:
    """Return the attributes that a user's class has beside `__dict__`."""
    slots = (vars(each).get("__slots__", ()) for each in kind.__mro__ if not is_ours(each))
    names = (name for each in slots for name in ((each,) if isinstance(each, str) else each))
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


# -- their values ----------------------------------------------------------------------------------


def _json_form(value: object) -> list[object]:
    """Return a value's JSON form; empty if it has none that comes back as it was."""
    if isinstance(value, float) and not np.isfinite(value):
        value = np.float64(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return [value.dtype.str, list(value.shape), data]
    return [value] if _is_json(value) else []


def _is_json(value: object, depth: int = 0) -> bool:
    if type(value) is list:
        return depth < _MAX_DEPTH and all(_is_json(each, depth + 1) for each in value)
    if type(value) is dict:
        return depth < _MAX_DEPTH and all(
            type(name) is str and _is_json(each, depth + 1) for name, each in value.items()
        )
    if type(value) is float:
        return bool(np.isfinite(value))
    return value is None or type(value) in (bool, int, str)


def _read_form(form: list[Any]) -> object:
    if len(form) == 1:
        return form[0]
    kind, shape, data = form
    if np.dtype(kind).kind not in "biuf":
        raise ValueError(f"the type of what is kept is {kind!r:.40}")
    values = np.frombuffer(base64.b64decode(data, validate=True), kind).reshape(shape)
    return values.copy() if shape else values[()]


class _Running(Exception):
    """A value holds something that has begun to run."""


def _digest(value: object) -> object:
    """Return something that differs if a value has changed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of iterators
            return hash(_frozen(value))
    except _Running:
        return _RUNNING


def _frozen(value: Any, within: tuple[int, ...] = ()) -> object:
    """Return a value as something hashable; it stops at what is no state of a user."""
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return kind.__name__, repr(value) if kind is float else value
    if isinstance(value, _RUNNING_TYPES):
        raise _Running
    # An owner has its own walk.
    if (
        isinstance(value, _STATELESS_TYPES)
        or any(map(is_ours, kind.__mro__))
        or id(value) in within
    ):
        return kind.__name__
    within = (*within, id(value))
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.dtype.str, value.shape, value.tobytes()
    if kind in (set, frozenset):
        return kind.__name__, frozenset(_frozen(each, within) for each in value)
    if kind is dict:
        parts: Iterable[Any] = value.items()
    elif kind in (list, tuple):
        parts = value
    else:
        try:
            reduced = value.__reduce_ex__(4)
        except TypeError:  # such as of a lock
            return kind.__name__
        parts = () if isinstance(reduced, str) else reduced
        parts = [[*each] if isinstance(each, Iterator) else each for each in parts]
    return kind.__name__, *(_frozen(each, within) for each in parts)
