"""One session of the chat: lines become messages, and messages are shown."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from moothall import (
    BROADCAST,
    ActionNotFound,
    Agent,
    AgentNotFound,
    RequestError,
    SlashError,
    parse_slash,
)
from moothall.build import Space, Threaded, escaped
from moothall.cli.chat.console import Console
from moothall.cli.chat.transcript import help_table, shown_message, speaker_prefix
from moothall.cli.own_agents import add_agent
from moothall.cli.progress import WarningHandler
from moothall.spaces import You, completed_call, completions

_HELP = ("/help", "help", "?", "/?")
_QUIT = ("/quit", "/exit", "quit", "exit")
_BYE = ("bye", "goodbye", "good bye", "bye bye")
_MAX_CORRECTED = 300  # the most characters of a line that is corrected
_MAX_QUIET = 1000
_LOG_DELAY_S = 0.2  # in which an answer may say what was logged
_LOGGER = logging.getLogger("moothall")


class Session:
    """One session."""

    def __init__(self, has_small_model: bool, name: str = "You") -> None:
        self._has_small_model = has_small_model
        self.notes: list[str] = []  # shown to the person at the start
        self._name = name
        self._you = You(name)
        self._pending: list[Any] = []
        self._numbers = itertools.count(1)
        # The last requests, by sender and id, whose messages are not shown in transit: the person's
        # own, whose outcome is shown, and those by which agents ask each other for help.
        self._quiet_requests: deque[tuple[str, Any]] = deque(maxlen=_MAX_QUIET)
        # The id of the line that is being answered.
        self._line_id: str | None = None
        self._console: Console  # set by `run`, like the loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._logged_lines: list[str] = []  # errors that no answer has told yet

    async def run(self, console: Console, space: Space, members: list[Agent]) -> int:
        """Run until the last line; return the exit code."""
        self._console = console
        for agent in [*members, self._you]:
            await asyncio.to_thread(add_agent, space, agent)
        self._loop = asyncio.get_running_loop()
        space.observe(self._on_observed)
        if console.is_interactive:
            for agent in members:
                if isinstance(agent, Threaded):
                    agent.watch(partial(self._on_event, agent))
        handler = WarningHandler(partial(self._call_on_loop, self._warn))
        _LOGGER.addHandler(handler)
        has_failed = False
        try:
            if console.is_interactive:
                await self._you.discover()
                console.show(console.screen.lines("", (self._welcome(), "")))
                for note in self.notes:
                    console.show(console.screen.lines("", (note, "")))
            while (line := await console.line()) is not None:
                self._you.forget_offers()
                if (command := self._command(line)) == "quit":
                    break
                if line.strip() and not console.is_interactive:
                    console.show(f"> {escaped(line.strip())}")
                if command == "help":
                    console.show(await self._help())
                    continue
                try:
                    message = parse_slash(line)
                except SlashError as error:
                    guess = await self._suggestion(line)
                    console.print_error(f"{error}; did you mean {guess}" if guess else str(error))
                    has_failed = True
                    continue
                if message is not None:
                    has_failed |= not await self._deliver(message)
        finally:
            console.show_at_work([])
            self._show_logged()
            _LOGGER.removeHandler(handler)
        return int(has_failed and not console.is_interactive)

    def _warn(self, line: str) -> None:
        """Show what was logged; an error, unless an answer says the same at once."""
        is_error = line.startswith("(error: ")
        if self._loop is None or not (is_error or self._logged_lines):
            self._console.print_error(line)
            return
        self._logged_lines.append(line)
        self._loop.call_later(_LOG_DELAY_S, self._show_logged)

    def _show_logged(self) -> None:
        lines, self._logged_lines = self._logged_lines, []
        for line in lines:
            self._console.print_error(line)

    def _call_on_loop(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function on the chat's loop, from any thread, while the loop runs."""
        if (loop := self._loop) is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(function, *args)

    def _on_observed(self, message: dict[str, Any]) -> None:
        self._call_on_loop(self._you.note_sender, message)
        if not self._note_if_quiet(message):
            self._call_on_loop(
                self._put_line, shown_message(self._console.screen, message, self._name)
            )

    def _put_line(self, line: str) -> None:
        with suppress(OSError):  # a closed output ends the chat at its own next write
            self._console.show(line)

    def _welcome(self) -> str:
        other_ids = self._you.other_ids()
        intro = (
            f"Here are {escaped(', '.join(other_ids))}."
            if other_ids
            else "Nobody else is here yet."
        )
        return (
            f"{intro} What you write goes to all who are here. /help says what each can do and how "
            "to ask for it, /quit leaves. Tab completes."
        )

    def _command(self, line: str) -> str | None:
        """Return what a line asks of the program: `quit`, `help` or None."""
        words = " ".join(line.lower().split())
        is_alone = not self._you.is_shared  # with other people there, it may be meant for them
        if words in _QUIT or (is_alone and words.rstrip("!.") in _BYE):
            return "quit"
        if words in _HELP:
            return "help"
        return None

    async def _help(self) -> str:
        """Return the help on what can be typed here."""
        await self._you.discover()
        other_ids = self._you.other_ids()
        all_offers = await asyncio.gather(*map(self._you.offers_of, other_ids))
        offers = dict(zip(other_ids, all_offers, strict=True))
        help_text = (
            "A text goes to all agents here. A line that begins with / goes to one, with values as "
            'JSON: /NAME.ACTION number:2 text:"two words". What is in brackets may be left out. '
            "/*.ACTION asks all agents. Agents here:"
        )
        footer = "/help or ? shows this, /quit, /exit or Ctrl-D leaves, Ctrl-C stops waiting."
        screen = self._console.screen
        table = help_table(offers, screen.columns)
        return "\n".join((screen.lines("", (help_text, "")), table, screen.lines("", (footer, ""))))

    async def _suggestion(self, line: str) -> str:
        """Return the line that was probably meant by one that is no message; empty if unknown."""
        other_ids = self._you.other_ids()

        async def help_of(id: str) -> Mapping[str, Any]:
            return await self._you.offers_of(id) if id in other_ids else {}

        return escaped(await completed_call(line, help_of)) if len(line) <= _MAX_CORRECTED else ""

    def interrupt(self) -> None:
        """Stop waiting for answers, and cancel the work on them."""
        for pending in self._pending:
            pending.cancel()

    async def complete(self, text: str) -> tuple[int, list[str]]:
        """Return how many characters to replace in a line, and what may come there."""
        length, words = await completions(text, self._you.other_ids(), self._you.offers_of)
        if text.startswith("/"):
            words = [word for word in ("help", "quit") if word.startswith(text[1:])] + words
        return length, words

    def on_connection(self, state: str, text: str) -> None:
        """Show that the connection works; its failures are shown from the log."""
        if state in ("connected", "unblocked") and self._loop and self._console.is_interactive:
            self._call_on_loop(self._console.print_error, f"({text})")

    async def _deliver(self, message: dict[str, Any]) -> bool:
        """Send a message as requests and show each answer; return whether none failed."""
        # A message to all is a request to each agent, so that it can be awaited and cancelled.
        # As with a broadcast, agents without the action are skipped.
        console, to, name = self._console, message["to"], message["action"]["name"]
        to_all = to == BROADCAST

        async def show_answer(receiver: str, pending: Any) -> bool | None:
            try:
                value = await pending
            except RequestError as error:
                console.end_answer(receiver)
                if isinstance(error, AgentNotFound):
                    self._you.ids_elsewhere.pop(receiver, None)
                    if to_all:
                        return None
                if to_all and isinstance(error, ActionNotFound):
                    return None
                error_line = escaped(str(error).partition("\n")[0])
                self._logged_lines = [each for each in self._logged_lines if error_line not in each]
                self._show_action(receiver, "error", {"error": str(error)})
                return False
            finally:
                del requests[receiver]
                console.show_at_work(list(requests))
            self._show_value(receiver, name, value, to_all)
            return True

        if to_all:
            await self._you.discover()
        skipped = ("FunctionAI",) if self._has_small_model and name == "say" else ()
        requests = {}
        self._line_id = id = f"line-{next(self._numbers)}"
        self._quiet_requests.append((self._name, id))
        try:
            for receiver in self._you.other_ids() if to_all else [to]:
                if to_all and receiver in skipped:
                    continue
                request = {**message, "to": receiver, "id": id}
                requests[receiver] = self._you.request(request, timeout=None)
            self._pending = list(requests.values())
            console.show_at_work(list(requests))
            outcomes = await asyncio.gather(*(show_answer(*each) for each in requests.items()))
        finally:
            self._line_id = None
            self._pending = []
        if not outcomes:
            console.print_error("no other agent is here")
            return False
        if all(outcome is None for outcome in outcomes):
            console.print_error(f'no agent here has the action "{escaped(name)}"')
            return False
        return False not in outcomes

    def _show_value(self, receiver: str, name: str, value: Any, to_all: bool) -> None:
        """Show what an agent answers to an action; of a message to all, only what says more."""
        console = self._console
        if isinstance(value, str):
            console.write_answer(receiver, value)
        elif name == "help" and isinstance(value, dict):
            table = help_table({receiver: value}, console.screen.columns)
            console.show(f"{speaker_prefix(console.screen, receiver)}\n{table}")
        elif value is None and name == "say":
            if not to_all:
                console.show(f"(delivered to {escaped(receiver)})")
        elif value is not None or not to_all:
            self._show_action(receiver, "response", {"data": value})

    def _show_action(self, sender: str, name: str, args: dict[str, Any]) -> None:
        """Show what an agent has sent to the person."""
        message = {"from": sender, "to": self._name, "action": {"name": name, "args": args}}
        self._console.show(shown_message(self._console.screen, message, self._name))

    def _note_if_quiet(self, message: dict[str, Any]) -> bool:
        """Return whether a message is not shown; note another's `help`, nor is its answer."""
        asker, id, name = message["from"], message.get("id"), message["action"]["name"]
        if name in ("response", "error"):
            asker, id = message["to"], message["action"]["args"].get("original_message_id")
        elif name == "help" and id and asker != self._name:
            self._quiet_requests.append((asker, id))
        return (asker, id) in self._quiet_requests or (asker == self._name and id == You.asking)

    def _on_event(self, agent: Threaded, event: Any) -> None:
        """Show an event of an agent that answers; called on the space's loop."""
        if not isinstance(agent, Agent) or event.agent != str(agent.id):
            return
        message = agent.current_message
        if message is not None and message["from"] == self._name and message.get("id") is not None:
            self._call_on_loop(self._show_event, message["id"], event)

    def _show_event(self, line_id: str, event: Any) -> None:
        if line_id != self._line_id:
            return
        if event.kind == "text":
            with suppress(OSError):  # the terminal has gone
                self._console.write_piece(event.agent, event.text)
        elif event.kind == "call_started" or (
            event.kind == "message" and event.message.get("role") != "assistant"
        ):
            self._console.end_answer(event.agent)
