"""What models keep beside columns and statuses, as part of a society's state: one walk of all.

An owner is a block, a service, the places, the network, the function of facts, a metric, an agent
or the society itself. Its variables are what it has beside what our classes give it.
"""

from __future__ import annotations

import base64
import dis
import functools
import json
import logging
import operator
import random
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, MethodType
from typing import Any, Final

from moothall import Agent, StateError
from moothall.build import Space, is_ours
from moothall.society.arrays import np

TOKEN_ATTRIBUTE: Final = "_society_token"
"""The attribute in which what a society lives with has the `Token` of that society."""
_MAX_DEPTH: Final = 8
_STATELESS_TYPES: Final = (type, FunctionType, BuiltinFunctionType, MethodType, logging.Logger)
"""Kinds of values that are no state."""
_WRAPPING_ITERATORS: Final = (enumerate, filter, map, zip)
"""Iterators that say by `__reduce__` of which others they are."""


class Token:
    """Stands for a society in what it lives with, in this process alone."""

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return type(None), ()

    def __deepcopy__(self, copied: object) -> Token:
        return self


def states_of(owners: Mapping[str, Any], first: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """Return what owners keep, as JSON data by their keys: by `state_dict`, or each variable.

    Raises:
        StateError: a variable has changed since `first`, and has no JSON form
    """
    own_states: dict[str, object] = {}
    variables: dict[str, object] = {}
    for key, owner in owners.items():
        if has_own_state_dict(owner):
            own_states[key] = owner.state_dict()
            continue
        variables[key] = {
            name: form for name, value in _variables(owner) if (form := _json_form(value))
        }
    hashes = hash_non_json(owners)
    for key, name in hashes.keys() | first.keys():
        if key in owners and hashes.get((key, name), 0) != first.get((key, name), 0):
            kind = type(dict(_variables(owners[key])).get(name)).__name__
            raise StateError(
                f"{title_of(key, owners[key])} has changed its variable {name!r} ({kind}), which "
                "has no JSON form: make it of numbers, texts, lists, dicts by text or arrays of "
                "numbers, or give its class state_dict() and load_state_dict()"
            )
    return {"states": own_states, "variables": variables}


def load_states(owners: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    """Restore what `states_of` returned; a variable that came later goes.

    Raises:
        StateError: something is there no more that has kept anything
    """
    states, variables_by_key = (recorded.get(name, {}) for name in ("states", "variables"))
    for key in [*states, *(key for key, variables in variables_by_key.items() if variables)]:
        if key not in owners:
            name = f"block {key}" if key.isdecimal() else key
            raise StateError(f"the state has what {name} kept, and the society has no such part")
    for key, state in states.items():
        owners[key].load_state_dict(state)
    for key, variables in variables_by_key.items():
        if key not in owners:
            continue
        owner = owners[key]
        for name, value in [*_variables(owner)]:
            if name not in variables and _json_form(value):
                _delete_variable(owner, name)
        for name, form in variables.items():
            _set_variable(owner, name, _read_form(form))


def hash_non_json(owners: Mapping[str, object]) -> dict[tuple[str, str], int]:
    """Return a hash of each variable without a JSON form; 0 of what no step should change."""
    return {
        (key, name): hash(_frozen(value))
        for key, owner in owners.items()
        if not has_own_state_dict(owner)
        for name, value in _variables(owner)
        if not _json_form(value)
    }


def state_hash(owner: object) -> int:
    """Return a hash of all that an owner keeps."""
    non_json = hash_non_json({"": owner})
    return hash(json.dumps([states_of({"": owner}, non_json), [*non_json.items()]], default=repr))


def blocks_by_number(blocks: Iterable[object]) -> dict[str, Any]:
    """Return the blocks that may keep something, with their numbers as keys."""
    return {str(number): each for number, each in enumerate(blocks) if not is_ours(type(each))}


def owners_of_agent(agent: Agent, id: str) -> dict[str, Any]:
    """Return an agent, unless it says itself what it keeps, and its blocks, as owners."""
    if hasattr(agent, "state_dict"):
        return blocks_by_number(agent.blocks)
    owners = blocks_by_number(agent.blocks) | {f"agent {id!r}": agent}
    memory = agent.memory
    if memory is not None and not is_ours(type(memory)) and not has_own_state_dict(memory):
        owners[f"the memory of agent {id!r}"] = memory
    return owners


def has_own_state_dict(owner: object) -> bool:
    """Return whether an owner, but a society, has a `state_dict` of the user's own."""
    method = getattr(type(owner), "state_dict", None)
    return method is not None and not is_ours(method) and not isinstance(owner, Space)


def variables_of(owner: object) -> dict[str, object]:
    """Return what an owner has beside what our classes give it, by name."""
    return dict(_variables(owner))


def title_of(key: str, owner: Any) -> str:
    """Return what an owner is called in errors."""
    return f"block {owner.name!r}" if key.isdecimal() else key


# -- the variables of an owner ---------------------------------------------------------------------


def root_of(owner: object) -> Any:
    """Return what keeps the variables of an owner: of a bound method its object."""
    while True:
        if isinstance(owner, functools.partial):
            owner = owner.func
        elif isinstance(owner, MethodType):
            owner = owner.__self__
        else:
            return owner


def _cells(owner: Any) -> dict[str, Any]:
    """Return the cells of a function's outer variables, by name."""
    names = owner.__code__.co_freevars
    return dict(zip(names, owner.__closure__ or (), strict=True))


def _bound_arguments(owner: object) -> dict[str, object]:
    """Return what a function is bound to, in tuples, which have no JSON form: none is put back."""
    bound: dict[object, object] = {}
    while isinstance(owner, functools.partial):
        bound = dict(enumerate(owner.args, 1)) | owner.keywords | bound
        owner = owner.func
    if isinstance(owner, FunctionType):
        count, values = owner.__code__.co_argcount, owner.__defaults__ or ()
        names = owner.__code__.co_varnames[count - len(values) : count]
        bound = dict(zip(names, values, strict=True)) | (owner.__kwdefaults__ or {}) | bound
    return {f"argument {name}": (value,) for name, value in bound.items()}


def _slots(owner: object) -> tuple[str, ...]:
    kind: Any = type(owner)
    return _slots_of_class(kind)


@functools.cache
def _slots_of_class(kind: type) -> tuple[str, ...]:
    """Return the variables that a user's class keeps beside `__dict__`."""
    slots = (vars(each).get("__slots__", ()) for each in kind.__mro__ if not is_ours(each))
    names = (name for each in slots for name in ((each,) if isinstance(each, str) else each))
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _variables(owner: object) -> Iterator[tuple[str, object]]:
    yield from _bound_arguments(owner).items()
    owner = root_of(owner)
    slots = _slots(owner)
    yield from ((name, getattr(owner, name)) for name in slots if hasattr(owner, name))
    if isinstance(owner, FunctionType):
        for name, cell in _cells(owner).items():
            try:
                yield name, cell.cell_contents
            except ValueError:  # it has no value yet
                continue
    if type(owner) is dict:
        yield from ((name, value) for name, value in owner.items() if type(name) is str)
    own_variables = getattr(owner, "__dict__", None)
    if type(own_variables) is dict and not isinstance(owner, type):
        kind: Any = type(owner)
        class_names = _names_of_class(kind)
        yield from (
            (name, value)
            for name, value in own_variables.items()
            if name not in class_names and name != TOKEN_ATTRIBUTE
        )


def _set_variable(owner: object, name: str, value: object) -> None:
    owner = root_of(owner)
    if isinstance(owner, FunctionType) and name in (cells := _cells(owner)):
        cells[name].cell_contents = value
    elif type(owner) is dict:
        owner[name] = value
    elif name in _slots(owner):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value


def _delete_variable(owner: object, name: str) -> None:
    owner = root_of(owner)
    if isinstance(owner, FunctionType) and name in (cells := _cells(owner)):
        del cells[name].cell_contents
    elif name in _slots(owner):
        delattr(owner, name)
    else:
        del (owner if type(owner) is dict else vars(owner))[name]


@functools.cache
def _names_of_class(kind: type) -> frozenset[str]:
    """Return the names that our classes give an object of a kind: what their methods assign."""
    return frozenset().union(*map(_assigned_by_class, filter(is_ours, kind.__mro__)))


# By each class: a user's classes, of which one may be made for each agent, share ours.
@functools.cache
def _assigned_by_class(kind: type) -> frozenset[str]:
    """Return the names of attributes that one of our classes itself declares or assigns."""
    names = set(vars(kind).get("__annotations__", ()))
    for name, part in vars(kind).items():
        if isinstance(part, functools.cached_property):
            names.add(name)
        if stored := getattr(part, "stored_name", ""):  # of a number that a ledger may keep
            names.add(stored)
        parts = [
            part,
            *(getattr(part, function_name, None) for function_name in ("fget", "fset", "func")),
        ]
        parts.append(getattr(part, "__func__", None))
        for function in parts:
            function = getattr(function, "__wrapped__", function)
            if isinstance(function, FunctionType):
                names.update(_assigned_attributes(function.__code__))
    return frozenset(names)


def _assigned_attributes(code: CodeType) -> Iterator[str]:
    """Return the names of the attributes that a function sets."""
    for each in dis.get_instructions(code):
        if each.opname == "STORE_ATTR":
            yield str(each.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _assigned_attributes(inner)


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
        raise ValueError(f"the type of a variable is {kind!r:.40}")
    values = np.frombuffer(base64.b64decode(data, validate=True), kind).reshape(shape)
    return values.copy() if shape else values[()]


def _frozen(value: object, depth: int = 0) -> object:
    """Return something hashable that differs if a value has changed, as far as can be seen."""
    if isinstance(links := getattr(value, "links", None), tuple):  # of a Network
        return _frozen(list(links), depth + 1)
    if depth > _MAX_DEPTH or isinstance(value, _STATELESS_TYPES):
        return 0
    if any(is_ours(each) for each in type(value).__mro__):
        return 0  # an owner has its own walk
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=False))
    if type(value) is random.Random:  # its variables are not in its `__dict__`
        return value.getstate()
    if hasattr(value, "__array__"):  # of numpy, pandas, polars or torch
        try:
            array = np.asarray(value)
        except Exception:  # such as of a tensor with a gradient
            return type(value).__name__
        if array.dtype == object:
            return (array.shape, tuple(map(repr, array.ravel().tolist())))
        return (array.dtype.str, array.shape, hash(array.tobytes()))
    if isinstance(value, GeneratorType):
        frame, inner = value.gi_frame, _frozen(value.gi_yieldfrom, depth + 1)
        return frame and (frame.f_lasti, _frozen(frame.f_locals, depth + 1), inner)
    if isinstance(value, Iterator) and (remaining := operator.length_hint(value, -1)) >= 0:
        return (type(value).__name__, remaining)  # such as of a list: how many items it still has
    if type(value) in _WRAPPING_ITERATORS:
        return _frozen(value.__reduce__(), depth + 1)
    if isinstance(value, Mapping):
        return tuple((repr(name), _frozen(each, depth + 1)) for name, each in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(map(repr, value))
    if isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, str):
        return tuple(_frozen(each, depth + 1) for each in value)
    if hasattr(value, "__dict__"):
        return (type(value).__name__, _frozen(vars(value), depth + 1))
    kind = type(value)
    if kind.__repr__ is object.__repr__:  # it has `__slots__`, and says nothing of them
        names = [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]
        return (kind.__name__, _frozen([getattr(value, name, None) for name in names], depth + 1))
    return repr(value)
