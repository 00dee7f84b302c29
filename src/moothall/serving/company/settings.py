"""A company's file: its settings, checked; errors name the line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    TypeAlias,
    get_args,
    get_type_hints,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    create_model,
    model_validator,
)

from moothall import AMQPOptions, ConfigError, MoothallError
from moothall.budget import LIMITS, Per
from moothall.build import FieldFault, Space, address, check_text, nearest, read_yaml
from moothall.serving.company.agent_kinds import AGENT_KINDS
from moothall.serving.company.durations import PositiveSeconds, Seconds
from moothall.serving.company.schedule import Missed, Schedule
from moothall.serving.company.supervisor import Restart
from moothall.serving.doors.callers import RIGHTS
from moothall.serving.doors.front import FRONT_OPTIONS

KeyPath: TypeAlias = tuple[str | int, ...]
"""The path of a part of the file: keys and places."""
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NEAR_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)|^\$([A-Za-z_]\w*)$")
_NEAR_VARIABLE_FAULT: Final = (
    "would be sent as it stands: a variable must be the whole value, written as ${{{}}}"
)
_SECRETS: Final = (("http", "token"), ("broker", "username"), ("broker", "password"), ("journal",))


Count: TypeAlias = Annotated[StrictInt, Field(ge=0)]
Amount: TypeAlias = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]


class _SettingsPart(BaseModel):
    """A part of the file; it refuses unknown keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


if TYPE_CHECKING:
    _Limits = _SettingsPart  # its fields are read by `limits` alone
else:
    _Limits = create_model(
        "_Limits",
        __base__=_SettingsPart,
        **{
            each.name: ((Count if each.is_whole_number else Amount) | None, None)
            for each in LIMITS
            if each.is_reserved
        },
    )


class BudgetSettings(_Limits):
    """Limits, as of `Budget`."""

    per: Per | None = None
    release_dead: StrictBool = False

    def limits(self) -> dict[str, Any]:
        """Return the arguments for `Budget`, or for one of its children."""
        values = self.model_dump(exclude={"release_dead"})
        return {name: value for name, value in values.items() if value is not None}


class RestartSettings(_SettingsPart):
    """How often a dead agent is started again, and after which delays."""

    most: Count | None = None
    within: Seconds | None = None
    first: Seconds | None = None
    longest: Seconds | None = None
    steady: Seconds | None = None

    def with_defaults_of(self, other: Restart) -> Restart:
        """Return the rule, with that of `other` for what is left out."""
        values = {name: value for name, value in self.model_dump().items() if value is not None}
        return Restart(**{**vars(other), **values})


_FIELD_NAMES: Final = {"hostname": "host", "use_ssl": "tls"}
"""What the file calls options of a broker, where that differs."""

_BROKER_TYPES: Final = get_type_hints(AMQPOptions)

if TYPE_CHECKING:
    _BrokerOptions = _SettingsPart  # its fields are read by `options` alone
else:

    def _strict_type(hint: Any) -> Any:
        kinds = {bool: StrictBool, int: StrictInt}
        hints = (hint, *get_args(hint))
        return next((kinds[kind] for kind in kinds if kind in hints), StrictStr) | None

    _BrokerOptions = create_model(
        "_BrokerOptions",
        __base__=_SettingsPart,
        **{
            _FIELD_NAMES.get(each.name, each.name): (
                _strict_type(_BROKER_TYPES[each.name]),
                Field(default=None, repr=each.repr),
            )
            for each in fields(AMQPOptions)
        },
    )


class BrokerSettings(_BrokerOptions):
    """Where the broker is; `AMQP_HOST` and the other variables have what the file leaves out."""

    exchange: StrictStr = "moothall"
    quorum: StrictBool = False
    inbox: StrictStr | None = None
    keep: Seconds = 86_400.0
    lost_after: Seconds | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments for `AMQPOptions` that the file states."""
        names = (each.name for each in fields(AMQPOptions))
        values = {name: getattr(self, _FIELD_NAMES.get(name, name)) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def missing_files(self, folder: Path) -> list[str]:
        """Return which files of certificates are not there, relative to a folder."""
        options = self.options()
        paths = {name: folder / options[name] for name in AMQPOptions.paths if name in options}
        missing = {name: str(path) for name, path in paths.items() if not path.is_file()}
        return [f"broker.{name}: there is no file {path!r}" for name, path in missing.items()]

    def space(self, folder: Path, **space_options: Any) -> Space:
        """Return a space there; its files are relative to a folder."""
        from moothall.spaces import space_over_broker

        options = self.options()
        options |= {name: folder / options[name] for name in AMQPOptions.paths if name in options}
        return space_over_broker(
            options, exchange=self.exchange, quorum=self.quorum, keep=self.keep, **space_options
        )


if TYPE_CHECKING:
    _Rights = _SettingsPart
else:
    _Rights = create_model(
        "_Rights", __base__=_SettingsPart, **dict.fromkeys(RIGHTS, (StrictBool, False))
    )


class CallerSettings(_Rights):
    """One of several callers: its tokens, and what it may do, such as permit calls."""

    token: StrictStr = Field(repr=False)
    old_token: StrictStr | None = Field(default=None, repr=False)


class HTTPSettings(_SettingsPart):
    """Where the doors, `/health` and `/metrics` are served, and to whom."""

    listen: StrictStr
    token: StrictStr | None = Field(default=None, repr=False)
    callers: dict[str, CallerSettings] = Field(default_factory=dict)
    rate: Annotated[StrictInt, Field(ge=1)] | None = None
    max_replies: Annotated[StrictInt, Field(ge=1)] | None = None
    public_url: StrictStr | None = None
    proxies: list[StrictStr] = Field(default_factory=list)
    origins: list[StrictStr] = Field(default_factory=list)

    def front_options(self) -> dict[str, Any]:
        """Return the arguments for `Front`."""
        return {name: getattr(self, name) for name in FRONT_OPTIONS}

    def rights(self) -> dict[str, Any]:
        """Return which callers may do what, as `Callers` takes it."""
        callers = self.callers.items()
        return {right: [name for name, each in callers if getattr(each, right)] for right in RIGHTS}


def _check_kind(kind: str) -> str:
    check_text("", kind, AGENT_KINDS)
    return kind


class CompanyAgentSettings(_SettingsPart):
    """One agent: a program's, or one of a built-in kind."""

    ref: StrictStr | None = None
    kind: Annotated[StrictStr, AfterValidator(_check_kind)] | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    secrets: dict[str, StrictStr] = Field(default_factory=dict, repr=False)
    budget: BudgetSettings | None = None
    restart: RestartSettings = RestartSettings()
    on_mismatch: Literal["stop", "fork"] = "stop"

    @model_validator(mode="after")
    def _check_source(self) -> CompanyAgentSettings:
        if (self.ref is None) is (self.kind is None):
            raise ValueError("needs either ref, such as agents.py:Clerk, or kind")
        for name in self.secrets:
            if name in self.options:
                raise ValueError(f"{name!r} is in options and in secrets: name it once")
        return self


class ScheduleSettings(_SettingsPart):
    """When an action of an agent is called."""

    every: Seconds | None = None
    cron: StrictStr | None = None
    timezone: StrictStr = "UTC"
    missed: Missed = "once"
    to: StrictStr
    action: StrictStr = "say"
    args: dict[str, Any] = Field(default_factory=dict)
    time_as: StrictStr | None = None
    timeout: Seconds = 3600.0
    thread: Literal["own", "shared"] = "own"

    @model_validator(mode="after")
    def _check_times(self) -> ScheduleSettings:
        try:
            self.schedule()
        except MoothallError as error:
            raise ValueError(str(error)) from None
        return self

    def schedule(self) -> Schedule:
        """Return the times."""
        return Schedule(self.every, self.cron, self.timezone, self.missed)


class Settings(_SettingsPart):
    """A whole file."""

    agents: dict[str, CompanyAgentSettings] = Field(min_length=1)
    schedules: dict[str, ScheduleSettings] = Field(default_factory=dict)
    journal: StrictStr | None = None
    broker: BrokerSettings | None = None
    http: HTTPSettings | None = None
    budget: BudgetSettings | None = None
    restart: RestartSettings = RestartSettings()
    given_up: Literal["exit", "stay"] = "exit"
    on_given_up: StrictStr | None = None
    approver: StrictStr | None = None
    on_waiting: StrictStr | None = None
    on_budget_low: StrictStr | None = None
    remind: PositiveSeconds | None = None
    expire: PositiveSeconds | None = None
    drain: Seconds = 30.0
    mailbox: Annotated[StrictInt, Field(ge=1)] = 10_000


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


def _fill_secrets(data: dict[str, Any], variables: Mapping[str, str]) -> list[tuple[KeyPath, str]]:
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
    faults: list[tuple[KeyPath, str]] = []
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


def _located_fault(error: Any) -> tuple[KeyPath, str]:
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


def _unknown_receivers(data: dict[str, Any]) -> list[tuple[KeyPath, str]]:
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


def _faults_across(settings: Settings) -> list[tuple[KeyPath, str]]:
    """Return the faults that concern several parts."""
    faults: list[tuple[KeyPath, str]] = []
    budgets: dict[KeyPath, BudgetSettings | None] = {("budget",): settings.budget}
    for name, agent in settings.agents.items():
        try:
            address(name)
        except MoothallError as error:
            faults.append((("agents", name), str(error)))
        budgets["agents", name, "budget"] = agent.budget
    for path, budget in budgets.items():
        if budget is None or not budget.release_dead:
            continue
        if settings.journal is None:
            faults.append(((*path, "release_dead"), "needs a journal, which has the budgets"))
        elif settings.budget is not None and budget is not settings.budget:
            faults.append(((*path, "release_dead"), "belongs to the budget of all agents"))
    for name, each in settings.schedules.items():
        key_path = ("schedules", name)
        if not name.isprintable() or not 0 < len(name) <= 100 or "@" in name:
            faults.append(
                (key_path, "a schedule's name has 1 to 100 printable characters, and no @")
            )
        if each.time_as is not None and each.time_as in each.args:
            faults.append(((*key_path, "time_as"), f"{each.time_as!r} stands under args too"))
    for key in ("on_waiting", "remind", "expire"):
        if getattr(settings, key) is not None and settings.journal is None:
            faults.append(((key,), "needs a journal, in which approvals wait"))
        elif (
            key != "on_waiting"
            and getattr(settings, key) is not None
            and settings.approver is not None
        ):
            faults.append(((key,), "is for approvals without an approver: of its own"))
    if settings.remind is not None and settings.journal is not None and settings.on_waiting is None:
        faults.append((("remind",), "needs on_waiting:, the function that is called each time"))
    if settings.http is not None and settings.http.token is not None and settings.http.callers:
        faults.append((("http", "callers"), "stand in place of a token: give one of both"))
    if settings.schedules and settings.journal is None:
        faults.append((("schedules",), "need a journal, which has each firing before it runs"))
    return faults
