"""An MCP server as an agent: its tools are the agent's actions."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, Unpack
from weakref import WeakMethod, finalize

from moothall import (
    ACCESS_REQUESTED,
    AccessPolicy,
    Action,
    ActionError,
    Agent,
    ConfigError,
    DefinitionError,
    MCPServerError,
    MissingExtra,
)
from moothall.actions import checked_policy
from moothall.agents import AgentSettings
from moothall.build import (
    WORKERS,
    check_boolean,
    check_function,
    check_path,
    check_seconds,
    guard,
    in_child,
    names_checked,
    nearest,
    shorten,
)
from moothall.serving.mcp.connection import ServerConnection
from moothall.serving.mcp.elicitation import answer_of_person
from moothall.serving.mcp.listing import Definition, ServerOffer
from moothall.serving.mcp.lock import DefinitionLock
from moothall.serving.mcp.target import checked_headers, checked_target, checked_texts
from moothall.serving.mcp.tools import ServerActions
from moothall.serving.mcp.web import Headers, shown_address

if TYPE_CHECKING:
    import mcp

    from moothall import Context

logger: logging.Logger = logging.getLogger("moothall.serving.mcp")
_FAULT_CHARS: Final = 500
"""How many characters of a fault a page is shown."""


@names_checked
class MCPAgent(Agent):
    """An MCP server as an agent: each tool of the server is an action, with the server's schema.

    Add it to a space, where other agents call its actions by the tools' names. Or give it to an
    agent with a loop, in `actions=[…]`: its model may then call the tools, named by the id, `_` and
    the tool. Resources and prompts are read by the actions `read_resource` and `get_prompt`.

    The server is started or reached when the agent is first used, and started again after its end,
    with growing delays. A tool that reports an error raises `ActionError`. So does a call that
    takes longer than `timeout_s`; the server is told that it is cancelled.

    What a server says of its tools is not trusted: no hint of it loosens a policy.

    Args:
        id: its id
        target: the server's command, as text or as a list, or its address (`https://…/mcp`)
        env: variables for the server's process, which else has only a few, such as `PATH`
        headers: headers for the server's address, such as `{"Authorization": "Bearer …"}`; or a
            function, plain or `async`, that returns those of each request
        auth: who logs in at the server's address: an `httpx2.Auth`, such as the MCP SDK's
            `ClientCredentialsOAuthProvider` or `OAuthClientProvider`
        lock: the path of a lock file with the definitions that a person has accepted
            (`moothall mcp lock`). A tool whose definition is new or has changed is asked for,
            whatever its policy. A model sees the accepted definition, and none of a new tool; so
            with the names of resources and prompts.
        access: the policy of the actions; or policies by the tools' names, where the others are
            `ACCESS_REQUESTED`
        timeout_s: seconds that a call may take, without the time that a person takes to answer
        idempotent: the tools of which two calls have the effect of one, as far as you know
        deferred: whether a model is shown a tool only once it has found it by `find_actions`; or
            that by the tools' names. For a tool without it: once its agent has more than 40 actions
            (docs/many-actions.md)
        **options: the options of `Agent`; up to 16 calls run at a time, by default

    Raises:
        InvalidId: the id is not valid
        ConfigError: an argument or the lock file is not valid
        DefinitionError: `env=` is given with an address, or `headers=` with a command
        MissingExtra: the extra `mcp` is not installed
    """

    concurrency = 16
    _connection: ServerConnection | None = None
    _actions: ServerActions | None = None
    offer: ServerOffer | None = None
    _is_closed = False

    def __init__(
        self,
        id: str | int,
        target: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | Headers | None = None,
        auth: Any = None,
        lock: str | os.PathLike[str] | None = None,
        access: AccessPolicy | Mapping[str, AccessPolicy] = ACCESS_REQUESTED,
        timeout_s: float = 60,
        idempotent: Iterable[str] = (),
        deferred: bool | Mapping[str, bool] | None = None,
        **options: Unpack[AgentSettings],
    ) -> None:
        super().__init__(id, **options)
        MissingExtra.unless("MCPAgent", "mcp", "mcp", "mcp_types")
        label = f"agent {id!r}"
        self._target = checked_target(target, label)
        self._env = checked_texts(env, "env", label)
        self._headers: Headers | dict[str, str]
        if callable(headers):
            check_function(f"{label}: headers=", headers)
        self._headers = headers if callable(headers) else checked_headers(headers, label)
        self._auth = auth
        if isinstance(self._target, str) and env:
            raise DefinitionError(f"{label}: env= is for a command, and target= is an address")
        for name, each in (("headers", headers), ("auth", auth)):
            if each and not isinstance(self._target, str):
                raise DefinitionError(f"{label}: {name}= is for an address, not for a command")
        for tool, policy in access.items() if isinstance(access, Mapping) else (("", access),):
            checked_policy(f"{label}: access=" + (f" of {tool!r:.80}" if tool else ""), policy)
        self._access = access
        self._unknown_logged = set[tuple[str, str]]()  # names of no tool that the log has told of
        check_seconds(f"{label}: timeout_s=", timeout_s)
        self._timeout_s = float(timeout_s)
        is_list = not isinstance(idempotent, str) and isinstance(idempotent, Iterable)
        self._idempotent = frozenset(idempotent if is_list else ())
        if not is_list or not all(isinstance(each, str) for each in self._idempotent):
            raise ConfigError(
                f"{label}: idempotent= must be a list of the tools' names, got {idempotent!r:.80}"
            )
        by_tool = (
            deferred if isinstance(deferred, Mapping) else {"": deferred is not None and deferred}
        )
        for tool, value in by_tool.items():
            check_boolean(f"{label}: deferred=" + (f" of {tool!r:.80}" if tool else ""), value)
        self._deferred = deferred
        check_path(f"{label}: lock=", lock, optional=True)
        self._lock_path = None if lock is None else os.fspath(lock)
        if self._lock_path is not None:
            DefinitionLock(self._lock_path)
        self._state_lock = guard()
        self._call_counts = [0, 0]  # calls, and how many of them failed
        self._last_fault: tuple[float, str] | None = None  # when and why the last one failed
        in_child(self._forget)

    # -- its connection ----------------------------------------------------------------------------

    async def connect(self) -> None:
        """Start or reach the server now, and read what it offers; also after `close`.

        Raises:
            MCPServerError: it cannot be started or reached, or does not speak the protocol
        """
        await self._open_connection(is_retry=True).open()

    def close(self) -> None:
        """End the connection and the server's process; calls under way end as MCPServerError.

        It waits for the end, some seconds if the server does not heed it. A second call does
        nothing. `connect`, or adding the agent to a space, opens a new connection.
        """
        with self._state_lock:
            self._is_closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def accept_definitions(self) -> None:
        """Write the definitions that the server has now to the lock file, as accepted.

        In a thread without a running event loop, this connects first.

        Raises:
            DefinitionError: the agent has no lock file
            MCPServerError: the server cannot be started or reached
        """
        lock, offer = self._lock_and_offer()
        lock.accept(str(self.id), offer.lock_entries)
        self._take_offer(offer)

    def definition_changes(self) -> dict[str, str]:
        """Return how definitions differ from the accepted ones, in words, by the tools' names.

        A tool that is new, or that the server has no longer, is among them. In a thread without a
        running event loop, this connects first.

        Raises:
            DefinitionError: the agent has no lock file
            MCPServerError: the server cannot be started or reached
        """
        lock, offer = self._lock_and_offer()
        id, entries = str(self.id), offer.lock_entries
        changes = {name: lock.difference(id, each) for name, each in entries.items()}
        changes |= dict.fromkeys(lock.removed_tools(id, entries), "the server has it no longer")
        return {name: difference for name, difference in changes.items() if difference}

    def _lock_and_offer(self) -> tuple[DefinitionLock, ServerOffer]:
        """Return the lock file and what the server offers."""
        if self._lock_path is None:
            raise DefinitionError(f"agent {self.id!r} has no lock=, so nothing is asked for")
        _ = self.offers
        if self.offer is None:
            raise MCPServerError(f"{self._name} is not connected: await connect() first")
        return DefinitionLock(self._lock_path), self.offer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await WORKERS.run(asyncio.get_running_loop(), self.close)

    async def after_add(self) -> None:
        """Connect: its actions are the server's."""
        await self.connect()
        self._renew()

    async def before_remove(self) -> None:
        """Close the connection."""
        await self.__aexit__()

    def _open_connection(self, is_retry: bool = False) -> ServerConnection:
        """Return the connection; make one, unless the agent is closed."""
        with self._state_lock:
            if self._is_closed and not is_retry:
                raise MCPServerError(f"{self._name}: the connection is closed; `connect` opens it")
            if self._connection is None or self._connection.is_closed:
                self._is_closed = False
                # Weak, so that an agent that nobody uses any more ends its server.
                weak_take_offer = WeakMethod(self._take_offer)

                def on_offer(offer: ServerOffer) -> None:
                    if (take := weak_take_offer()) is not None:
                        take(offer)

                connection = self._connection = ServerConnection(
                    self._name,
                    self._target,
                    self._env,
                    self._headers,
                    self._timeout_s,
                    on_offer,
                    self._auth,
                )
                finalize(self, connection.close, wait=False).atexit = False
            return self._connection

    @property
    def _name(self) -> str:
        return f"MCP server {str(self.id)!r}"

    def _forget(self) -> None:
        """In a forked child, open a connection of its own: the other is the parent's."""
        self._connection = None

    # -- what a person is shown of it --------------------------------------------------------------

    def door_row(self) -> dict[str, Any]:
        """Return what it is connected to, what is locked and what has changed, for a page."""
        offer, connection = self.offer, self._connection
        target = self._target
        address = shown_address(target) if isinstance(target, str) else os.path.basename(target[0])
        is_live = connection is not None and connection.is_live
        facts = {
            "kind": "MCP server",
            "where": address,
            "connected": is_live,
            "lock": self._lock_path,
        }
        tools = {} if offer is None else offer.tools
        changes, removed = dict[str, dict[str, Any]](), list[str]()
        if self._lock_path is not None and offer is not None:
            lock = DefinitionLock(self._lock_path)
            id = str(self.id)
            changes = {
                name: {"was": lock.accepted_definition(id, name), "now": each.data}
                for name, each in offer.lock_entries.items()
                if lock.difference(id, each)
            }
            removed = lock.removed_tools(id, offer.lock_entries)
        return {
            **facts,
            "calls_itself": None if offer is None else offer.server,
            "tools": [[name, each.data.get("description")] for name, each in sorted(tools.items())],
            "changed": changes,
            "gone": removed,
            "shown_hash": (offer or ServerOffer()).lock_hash,
            "calls": self._call_counts[0],
            "failed": self._call_counts[1],
            "last_fault": self._last_fault,
        }

    def accept_offer(self, shown_hash: str) -> None:
        """Accept the definitions that a person has seen; ConfigError if they have changed since."""
        offer = self.offer
        if self._lock_path is None or offer is None or offer.lock_hash != shown_hash:
            raise ConfigError(f"{self._name}: its definitions have changed: look at them again")
        DefinitionLock(self._lock_path).accept(str(self.id), offer.lock_entries)
        self._take_offer(offer)

    # -- its actions -------------------------------------------------------------------------------

    @property
    def offers(self) -> dict[str, Action]:
        """Return the server's tools as actions, by name.

        In a thread without a running event loop, this connects first. Where a loop is running,
        there are none before `await agent.connect()`.

        Raises:
            MCPServerError: the server cannot be started or reached
        """
        if self._actions is None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                self._open_connection().open_in_thread()
        return super().offers

    def all_offers(self) -> dict[str, Action]:
        """Return what others may call, with help, response and error."""
        actions = super().all_offers()
        return actions if self._actions is None else {**self._actions.offered, **actions}

    def server_actions(self) -> dict[str, Action]:
        """Return the actions for an agent with a loop, as the server has them now."""
        return {} if self._actions is None else self._actions.tools

    async def get_ready(self) -> None:
        """Connect before a reply, unless it is known what the server offers."""
        if self._actions is None or self._is_closed:
            await self._open_connection().open()

    def _take_offer(self, offer: ServerOffer) -> None:
        """Take what the server offers; called on the connection's loop."""
        lock = None if self._lock_path is None else DefinitionLock(self._lock_path)
        settings = (self._send_request, self._policy_of, self._idempotent, lock, self._deferral_of)
        actions = ServerActions(str(self.id), offer, *settings)
        self.offer, self._actions = offer, actions
        self._log_unknown_names(actions.names)
        self._renew()

    def _log_unknown_names(self, names: Iterable[str]) -> None:
        """Log, once each, the names in arguments that no tool has: what they say holds nowhere."""
        for argument, by_tool in (("access", self._access), ("deferred", self._deferred)):
            stated_names = by_tool if isinstance(by_tool, Mapping) else ()
            for name in {*stated_names}.difference(names):
                if (argument, name) not in self._unknown_logged:
                    self._unknown_logged.add((argument, name))
                    logger.warning(
                        "%s: %s= names %.80r, which is not one of its tools%s",
                        self._name,
                        argument,
                        name,
                        nearest(str(name), names),
                    )

    def _renew(self) -> None:
        renew: Callable[[], None] | None = getattr(self.space_mailbox, "renew", None)
        if renew is not None:
            renew()

    def _policy_of(self, tool: str) -> AccessPolicy:
        if isinstance(self._access, Mapping):
            return self._access.get(tool, ACCESS_REQUESTED)
        return self._access

    def _deferral_of(self, tool: str) -> bool | None:
        return self._deferred.get(tool) if isinstance(self._deferred, Mapping) else self._deferred

    async def _send_request(
        self,
        label: str,
        send: Callable[[mcp.Client], Awaitable[Any]],
        context: Context[Any] | None,
        definition: Definition | None,
    ) -> Any:
        """Send a request, if the tool is still the one that was permitted."""

        async def send_checked(client: mcp.Client) -> Any:
            tools = None if self.offer is None else self.offer.tools
            if definition is not None and tools is not None:
                current = tools.get(definition.name)
                if current is None:
                    reason = f"{self._name} has no tool {label} any more, so it was not called"
                    raise ActionError("ToolGone", reason)
                if self._lock_path is not None and current.sha256 != definition.sha256:
                    raise ActionError(
                        "DefinitionChanged",
                        f"{self._name} has changed {label} since this call was permitted, so it "
                        "was not sent",
                    )
            return await send(client)

        async def ask(params: Any) -> Any:
            assert context is not None
            return await answer_of_person(str(self.id), params, context.ask_person)

        connection = self._open_connection()
        with self._state_lock:
            self._call_counts[0] += 1
        try:
            if context is None:
                return await connection.request(send_checked, label)
            agent, run_id = id(context.agent), context.run_id
            caller = (agent, run_id, context.thread, context.sender)
            return await connection.request(send_checked, label, ask, caller)
        except Exception as error:
            with self._state_lock:
                self._call_counts[1] += 1
                self._last_fault = time.time(), shorten(str(error), _FAULT_CHARS)
            is_listed = definition is None or not self.offer or definition.name in self.offer.tools
            if is_listed or not isinstance(error, ActionError) or error.type == "ToolGone":
                raise
            reason = f"{self._name} has no tool {label} any more: {error.text}"
            raise ActionError("ToolGone", reason) from None
