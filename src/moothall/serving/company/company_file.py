"""A company's file, read: secrets from variables, and each fault with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from moothall import ConfigError, MoothallError
from moothall.build import FieldFault, address, nearest, read_yaml
from moothall.serving.company.settings import BudgetSettings, ScheduleSettings, Settings

KeyPath: TypeAlias = tuple[str | int, ...]
"""The path of a part of the file: keys and places."""
Fault: TypeAlias = tuple[KeyPath, str]
"""What is wrong, in words, with its place."""
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NEAR_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)|^\$([A-Za-z_]\w*)$")
_NEAR_VARIABLE_FAULT: Final = (
    "would be sent as it stands: a variable must be the whole value, written as ${{{}}}"
)
_SECRETS: Final = (("http", "token"), ("broker", "username"), ("broker", "password"), ("journal",))


def read_settings(path: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a file; ConfigError names what is wrong, with its line."""
    data, lines = read_yaml(path, "a company's file", "company")
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must be a mapping with `agents:`")
    variables = os.environ if environment is None else environment
    faults = [*_fill_secrets(data, variables)]
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        faults += [_located_fault(each) for each in error.errors(include_url=False)]
    faults += _unknown_receivers(data)
    if settings is not None:
        faults += _faults_across(settings)
    if settings is None or faults:
        raise ConfigError("\n".join(lines.at(*each) for each in dict(faults).items()))
    return settings


def _fill_secrets(data: dict[str, Any], variables: Mapping[str, str]) -> list[Fault]:
    """Put the values of variables into the fields for secrets, and into no others."""
    key_paths: list[KeyPath] = [*_SECRETS]
    http = data.get("http")
    callers = http.get("callers") if isinstance(http, dict) else None
    if isinstance(callers, dict):
        key_paths += [
            ("http", "callers", each, name) for each in callers for name in ("token", "old_token")
        ]
    agents = data.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        secrets = agent.get("secrets") if isinstance(agent, dict) else None
        if isinstance(secrets, dict):
            key_paths += [("agents", name, "secrets", each) for each in secrets]
    faults: list[Fault] = []
    for key_path in key_paths:
        part: Any = data
        for key in key_path[:-1]:
            part = part.get(key) if isinstance(part, dict) else None
        value = part.get(key_path[-1]) if isinstance(part, dict) else None
        match = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            text = value if isinstance(value, str) and key_path != ("journal",) else ""
            if near_miss := _NEAR_VARIABLE.search(text):
                faults.append((key_path, _NEAR_VARIABLE_FAULT.format(near_miss[1] or near_miss[2])))
            continue
        if not variables.get(match[1]):
            faults.append((key_path, f"the variable {match[1]} is not set"))
        part[key_path[-1]] = variables.get(match[1], "")
    return faults


def _located_fault(error: Any) -> Fault:
    """Return the place of a fault in the file, and its text."""
    key_path: KeyPath = tuple(error["loc"])
    fault = FieldFault(error, Settings)
    if fault.kind == "extra_forbidden":
        keys = fault.names_at(key_path[:-1])
        hint = nearest(str(key_path[-1]), keys)
        return key_path, f"there is no such key{hint}; there are {', '.join(sorted(keys))}"
    if fault.kind == "missing":
        return key_path[:-1], f"{key_path[-1]!r} is missing"
    if fault.kind == "too_short":
        return key_path, "there must be at least one"
    return key_path, fault.in_words


def _unknown_receivers(data: dict[str, Any]) -> list[Fault]:
    """Return the faults of schedules that name no agent, whatever else is wrong."""
    agents, schedules = data.get("agents"), data.get("schedules")
    if not isinstance(agents, dict) or not isinstance(schedules, dict):
        return []
    names = [each for each in agents if isinstance(each, str)]
    receivers = {n: each.get("to") for n, each in schedules.items() if isinstance(each, dict)}
    return [
        (("schedules", name, "to"), f"there is no agent {to!r}{nearest(to, names)}")
        for name, to in receivers.items()
        if isinstance(to, str) and to not in names
    ]


def _faults_across(settings: Settings) -> Iterator[Fault]:
    """Yield the faults that concern several parts."""
    for name in settings.agents:
        try:
            address(name)
        except MoothallError as error:
            yield ("agents", name), str(error)
    yield from _budget_faults(settings)
    for name, each in settings.schedules.items():
        yield from _schedule_faults(name, each)
    yield from _approval_faults(settings)
    if settings.http is not None and settings.http.token is not None and settings.http.callers:
        yield ("http", "callers"), "stand in place of a token: give one of both"
    if settings.schedules and settings.journal is None:
        yield ("schedules",), "need a journal, which has each firing before it runs"


def _budget_faults(settings: Settings) -> Iterator[Fault]:
    """Yield the budgets that are to release what the dead have reserved, and cannot."""
    budgets: dict[KeyPath, BudgetSettings | None] = {("budget",): settings.budget}
    budgets |= {("agents", name, "budget"): each.budget for name, each in settings.agents.items()}
    for path, budget in budgets.items():
        if budget is None or not budget.release_dead:
            continue
        if settings.journal is None:
            yield (*path, "release_dead"), "needs a journal, which has the budgets"
        elif settings.budget is not None and budget is not settings.budget:
            yield (*path, "release_dead"), "belongs to the budget of all agents"


def _schedule_faults(name: str, schedule: ScheduleSettings) -> Iterator[Fault]:
    """Yield what is wrong with a schedule's name, and with its argument of the time."""
    if not name.isprintable() or not 0 < len(name) <= 100 or "@" in name:
        text = "a schedule's name has 1 to 100 printable characters, and no @"
        yield ("schedules", name), text
    if schedule.time_as is not None and schedule.time_as in schedule.args:
        yield ("schedules", name, "time_as"), f"{schedule.time_as!r} stands under args too"


def _approval_faults(settings: Settings) -> Iterator[Fault]:
    """Yield what is stated of approvals that wait, where none can wait."""
    stated_keys = [
        each for each in ("on_waiting", "remind", "expire") if getattr(settings, each) is not None
    ]
    for key in stated_keys:
        if settings.journal is None:
            yield (key,), "needs a journal, in which approvals wait"
        elif key != "on_waiting" and settings.approver is not None:
            yield (key,), "is for approvals without an approver: of its own"
    if "remind" in stated_keys and settings.journal is not None and settings.on_waiting is None:
        yield ("remind",), "needs on_waiting:, the function that is called each time"
