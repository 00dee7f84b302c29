"""Every exception that moothall raises, under one base, in families by who must act.

* The developer: the program is wrong (`DefinitionError`, `InvalidMessage`, `NotInSpace`, …).
* The caller: a request had another outcome than its value (`RequestError` and below).
* The operator: something that the program needs is missing or refused (`ModelError` and below).
* The user who named a file or command or wrote a line: `FileError`, …; the model: `AskAgain`.
"""

from copyreg import __newobj__ as _newobj  # type: ignore[attr-defined]
from shlex import quote as _quote
from types import MemberDescriptorType as _Member
from typing import Any as _Any


class MoothallError(Exception):
    """The base of every exception that moothall raises; a pickle or a copy has its attributes.

    `argument` is the name of the argument, setting or field that it is about, if that is known.
    """

    def __init__(self, *args: object, argument: str | None = None) -> None:
        super().__init__(*args)
        self.argument = argument

    def __reduce__(self) -> tuple[_Any, ...]:
        # Without `__init__`, whose arguments are others than `args`. Built-in bases keep some
        # attributes, such as `errno`, beside `__dict__`.
        members = [each for kind in type(self).__mro__ for each in vars(kind).items()]
        slots = {name: getattr(self, name, None) for name, m in members if isinstance(m, _Member)}
        fields = {name: value for name, value in slots.items() if value is not None}
        return _newobj, (type(self), *self.args), {**fields, "args": self.args, **vars(self)}


# -- the developer ---------------------------------------------------------------------------------


class DefinitionError(MoothallError, TypeError):
    """An action, agent or model is defined in a way that cannot work, or an argument is wrong."""


class ConfigError(DefinitionError, ValueError):
    """An argument or a setting has a value that is not allowed; its text says which are."""


class UnknownPrice(DefinitionError):
    """A budget with a limit of money is used with a model whose price is not known."""


class HookError(MoothallError):
    """A hook or a block raised, or returned what it may not; `__cause__` is what it raised.

    `hook` is its name, and `type` where it stood: `pre_acting`, or of a block `around_model`.
    """

    def __init__(self, agent: str, type: str, hook: str, reason: str) -> None:
        subject = f"{type} of the block" if type.startswith("around_") else f"the {type} hook"
        super().__init__(f"agent {agent!r}: {subject} {hook!r} failed: {reason}")
        self.type: str = type
        self.hook: str = hook


class InvalidId(MoothallError, ValueError):
    """An agent's id is not a string of 1–255 characters, is `*`, or starts with `amq.`."""


class DuplicateAgent(MoothallError, ValueError):
    """An agent of that id is in the space already; that agent is not affected."""


class InvalidMessage(MoothallError, ValueError):
    """A message does not conform to the schema; `field` is wrong, such as `action.args.b`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"invalid message: {field}: {reason}")
        self.field = field


class NotInSpace(MoothallError, RuntimeError):
    """An agent that is in no space was asked to send or to request."""


class VirtualTimeError(MoothallError, RuntimeError):
    """A society was asked for an answer within a step; there, answers come in the next step."""


# -- the caller: the outcomes of a request other than its value, and the limits that it set --------


class RequestError(MoothallError):
    """A request ended without a value. Its subclasses are the reasons."""


class ActionError(RequestError):
    """The action raised an exception of class `type`, such as `ZeroDivisionError`, with `text`.

    `where` is the agent and action, such as `Calculator.divide`; None if not known. `run_id` is
    the run that waits, of a `RunWaiting`; None for another error.
    """

    run_id: str | None = None

    def __init__(self, type: str, text: str, where: str | None = None) -> None:
        super().__init__(f"{type}: {text}" if text else type)
        self.type: str = type
        self.text: str = text
        self.where: str | None = where


class _SpaceError(ActionError):
    """What the space itself says of a call; its `type` is its class's name."""

    def __init__(self, text: str, where: str | None = None) -> None:
        super().__init__(type(self).__name__, text, where)


class HopLimitExceeded(_SpaceError):
    """A chain of requests, each made while handling the one before, grew past 32."""


class Deadlock(_SpaceError):
    """Agents wait for each other, each in a request that the other cannot start."""


class InDoubt(_SpaceError):
    """The action had begun when its process ended: whether it took effect is not known."""


class RunWaiting(_SpaceError):
    """The reply waits in its journal, as the run `run_id`, for an answer, a result or a moment."""


class InvalidArguments(RequestError):
    """Arguments are missing, unexpected or of the wrong type; `argument` first, if it is known."""


class ActionNotFound(RequestError):
    """The agent has no such action."""


class NotPermitted(RequestError):
    """The action's access policy, or the approver, refused."""


class AgentNotFound(RequestError):
    """No agent of that id is in the space."""


class MailboxFull(RequestError):
    """The receiver's mailbox is full."""


class RequestTimeout(RequestError, TimeoutError):
    """The deadline passed; the receiver's action was cancelled."""


class RequestCancelled(RequestError):
    """The request was cancelled; the receiver's action was cancelled too."""


class AgentStopped(RequestError):
    """The receiver was removed from its space before it answered."""


class SpaceClosed(RequestError):
    """The space was closed before the receiver answered."""


class BudgetExceeded(MoothallError):
    """The budget does not cover what a run was about to do; `limit` refused, such as `tokens`."""

    def __init__(self, text: str, limit: str, needs: _Any = None) -> None:
        super().__init__(text)
        self.limit = limit
        self.needs = needs  # how much of which accounts, if other spenders may return it

    def __reduce__(self) -> tuple[_Any, ...]:
        build, args, state = super().__reduce__()
        return build, args, {**state, "needs": None}  # the accounts are those of one process


class DeadlineExceeded(BudgetExceeded, TimeoutError):
    """The seconds that a run may take are over."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "seconds")


class NobodyToAsk(MoothallError):
    """An action asks a person a question, and no person can answer."""


# -- the operator ----------------------------------------------------------------------------------


class MissingExtra(MoothallError, ImportError):
    """A feature needs packages of an extra that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}': pip install 'moothall[{extra}]'")
        self.extra = extra

    @classmethod
    def unless(cls, feature: str, extra: str, *packages: str) -> None:
        """Raise it unless the packages are installed; none of them is imported."""
        from importlib.util import find_spec

        try:
            is_missing = any(find_spec(package) is None for package in packages)
        except ModuleNotFoundError as error:  # of the package above it, or of what that needs
            is_missing = any(f"{package}.".startswith(f"{error.name}.") for package in packages)
            if not is_missing:
                raise
        if is_missing:
            raise cls(feature, extra)


class BrokerError(MoothallError, ConnectionError):
    """A message broker cannot be reached, or refuses; the text says which and what to do."""


class AgentDied(MoothallError):
    """An agent that a company serves cannot go on: its background work raised, or it has left."""


class GivenUp(MoothallError):
    """A supervised part has died too often, and is not started again."""


class MCPServerError(MoothallError, ConnectionError):
    """An MCP server cannot be started or reached, has ended, or does not speak the protocol."""


class ModelError(MoothallError):
    """A model could not answer; with its server's `status`, and its `usage`, if these are known.

    `of_content`: whether it may be of what the request says or shows, as a filter's.
    """

    status: int | None = None
    usage: object = None
    refusal: object = None  # what its server wrote of the request, if known

    def __init__(self, *args: object, of_content: bool = False) -> None:
        super().__init__(*args)
        self.of_content = of_content


class WeightsError(ModelError):
    """A model's weights are missing, incomplete, or do not match their hash."""


class ContextOverflow(ModelError):
    """A prompt does not fit the model's context; nothing was cut."""


class RemoteForbidden(ModelError):
    """`MOOTHALL_OFFLINE=1` forbids a call to another machine."""


class TooManyThreads(MoothallError, RuntimeError):
    """A call needs a thread; all allowed threads are busy, or the system starts no more."""


# -- the user who named a file or a command, or wrote a line; at last, the model -------------------


class FileError(MoothallError, OSError):
    """An operation on a file failed. The text names the file as it was given."""


class NoSuchFile(FileError, FileNotFoundError):
    """No file has that name; the text lists similar names."""


class OutsideFolder(FileError, PermissionError):
    """The name leads out of the folder."""


class NotAFile(FileError):
    """It is a folder, a pipe, a socket or a device, or it should be a folder and is not."""


class NotText(FileError):
    """The file is binary."""


class FileTooLarge(FileError):
    """The file, or the text to write, has more bytes than are allowed."""


class PageError(MoothallError):
    """A page or document could not be read; the text names it and says why."""


class AddressRefused(PageError):
    """A host's address is not on the public Internet, and the host is not allowed by name."""


class UnreadableDocument(PageError):
    """A document is damaged, encrypted, empty, or larger than allowed."""


class SearchError(MoothallError):
    """A search engine returned no usable results; the text says why."""


class CommandError(MoothallError):
    """A command could not be started, or its end could not be observed."""


class CommandTimeout(MoothallError, TimeoutError):
    """A command took too long and was killed, with every process that it started."""


class _StoreError(MoothallError):
    """A file of moothall's own, `path`, cannot be used; `reason` says why, and what to do."""

    _kind = ""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{self._kind} {path!r}: {reason}")
        self.path, self.reason = path, reason


class MemoryFileError(_StoreError):
    """A memory's file cannot be used. The text names the file and says what to do."""

    _kind = "memory file"


class FolderIndexError(_StoreError):
    """The index of a folder cannot be used. The text names its file and says what to do."""

    _kind = "folder index"


class InboxError(_StoreError):
    """A space's inbox cannot be used or written. The text names the file and says what to do."""

    _kind = "inbox"


class JournalError(_StoreError):
    """A journal cannot be used or written. The text names the file and says what to do."""

    _kind = "journal"


class NoSuchRun(MoothallError, LookupError):
    """A journal has no run of that id; the text lists its runs."""


class RunHeld(MoothallError):
    """Another writer has the run `run_id`: its `holder`, such as `process 4711 on host`."""

    def __init__(self, run_id: str, holder: str) -> None:
        super().__init__(
            f"run {run_id!r} is being worked on by {holder}: wait for it, or end it, and call "
            "again; or give this one another run_id"
        )
        self.run_id, self.holder = run_id, holder


class RunMismatch(MoothallError):
    """The program that would resume `run_id` is another: in `changed`; `detail` says how."""

    def __init__(self, run_id: str, changed: tuple[str, ...], detail: str, hint: str = "") -> None:
        hint = hint or (
            f"use another run_id, or resume a fork: journal.fork({run_id!r}), or `moothall resume "
            f"{_quote(run_id)} --force --journal PATH`, with `--agent MODULE:AGENT` too for an "
            "agent of a program's own"
        )
        super().__init__(
            f"run {run_id!r} was begun by another program, which differs in: {', '.join(changed)} "
            f"({detail}); restore it, {hint}"
        )
        self.run_id, self.changed, self.detail = run_id, changed, detail


class StateError(MoothallError, ValueError):
    """A saved state cannot be loaded, or a state cannot be saved."""


class CardGone(MoothallError, LookupError):
    """A question to a person in the studio was answered already, or is no longer open."""


class SlashError(MoothallError, ValueError):
    """A line is not a message in the slash syntax; `reason` says what was expected.

    `column` is where, from 1; one past the line's end if the line ends too early.
    """

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(f"column {column}: {reason}")
        self.column, self.reason = column, reason


class AskAgain(MoothallError):
    """An action raises it to make the model try again, with this text as the reason."""
