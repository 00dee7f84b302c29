"""The settings of a company: what its file may have, part by part."""

from __future__ import annotations

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
    create_model,
    model_validator,
)

from moothall import AMQPOptions, MoothallError
from moothall.budget import LIMITS, Per
from moothall.build import Space, check_text
from moothall.serving.company.agent_kinds import AGENT_KINDS
from moothall.serving.company.durations import PositiveSeconds, Seconds
from moothall.serving.company.schedule import Missed, Schedule
from moothall.serving.company.supervisor import Restart
from moothall.serving.doors.callers import RIGHTS
from moothall.serving.doors.front import FRONT_OPTIONS

Count: TypeAlias = Annotated[StrictInt, Field(ge=0)]
Deaths: TypeAlias = Annotated[StrictInt, Field(ge=1)] | Literal["never"] | None
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
    deaths: Deaths = None

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
    deaths: Deaths = None
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
