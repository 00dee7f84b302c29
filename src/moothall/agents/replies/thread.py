"""The threads of an agent: the data of each conversation, and which threads are kept."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote
from weakref import WeakSet

from moothall.foundation.threads import guard, in_child, settle
from moothall.memory.long_results import ThreadResults
from moothall.memory.memory import Memory

if TYPE_CHECKING:
    from moothall.actions.provenance.texts import Texts
    from moothall.agents.agent import Handling
    from moothall.journal.holders import KnownRuns

MAX_THREADS: Final = 1000
"""How many threads of an agent are kept in the process."""

_MAX_ID_CHARS: Final = 255
_HASH_PREFIX: Final = "sha256:"
_SESSION: Final = re.compile(r"mcp(?:-[A-Za-z0-9_.-]+)?/[0-9a-f]{16}(?![^/])")

# One lock for all: it is held for a few instructions, and there are many agents.
_LOCK = guard()


class RunningReply(Protocol):
    """A reply under way that can be interrupted. Use it on its own loop only."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop that it runs on."""
        ...

    def interrupt(self, text: Any) -> None:
        """Stop the current work and continue with this text."""
        ...


class TurnLock:
    """A lock for coroutines of any loops and OS threads: first come, first served."""

    __slots__ = ("_granted_waiter", "_is_taken", "_waiters", "handling")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Let nobody have the turn, and nobody wait for it."""
        self._is_taken = False
        self.handling: Handling | None = None  # the message that led to the turn under way
        # Made when a task has to wait: most agents have one request at a time.
        self._waiters: deque[asyncio.Future[None]] | None = None
        self._granted_waiter: asyncio.Future[None] | None = None  # who got the turn under way

    def take_now(self) -> bool:
        """Take the turn if nobody has it; return whether it is taken."""
        with _LOCK:
            is_free = not self._is_taken
            self._is_taken = True
            return is_free

    async def take(self) -> None:
        """Wait for a turn. A cancelled wait leaves the queue."""
        if self.take_now():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with _LOCK:
            if self._waiters is None:
                self._waiters = deque()
            waiters = self._waiters
            waiters.append(turn)
            if not self._is_taken:  # it has ended meanwhile
                self._is_taken = True
                waiters.remove(turn)
                return
        try:
            await turn
        except BaseException:
            with _LOCK:
                if turn in waiters:
                    waiters.remove(turn)
                elif turn is self._granted_waiter:
                    # Cancelled once it had been given the turn: without this nobody gets it again.
                    self.end()
            raise

    def end(self) -> None:
        """End the turn; the next one begins."""
        with _LOCK:
            self.handling = None
            while self._waiters:
                self._granted_waiter = self._waiters.popleft()
                # If its loop has ended, nobody would end the turn.
                if settle(self._granted_waiter):
                    return
            self._is_taken, self._granted_waiter = False, None


@dataclass(slots=True, eq=False, weakref_slot=True)
class Thread:
    """One conversation of an agent."""

    id: str | None  # None for the agent's own
    turn_lock: TurnLock = field(default_factory=TurnLock)  # all threads of the agent may share it
    memory: Memory | None = None  # None until it is first used
    reply: RunningReply | None = None  # the reply under way, if it can be interrupted
    pending_texts: list[Any] = field(default_factory=list)  # interruptions for the next reply
    discovered_actions: dict[str, Any] | None = None  # other agents', that were found last, by name
    defers_actions: bool | None = False  # whether those of servers; None: not decided yet
    results: ThreadResults | None = None  # the long ones, by number; None before the first
    found_actions: tuple[str, ...] = ()  # the deferred actions that the model has found, in order
    last_offer: Any = None  # the actions as last shown to the model, and their source
    agent_state: Any = None  # an orchestrator's data for the thread
    stored_messages: Any = None  # what it remembers from earlier runs, as a journal keeps it
    texts_by_origin: Texts | None = None  # None until something outside was read
    is_marked: bool = False  # whether a message has a mark although nothing outside was read
    has_blocks: bool = False  # whether a result of an action has images or files
    has_attachments: bool = False  # whether a message of the user has
    has_refusals: bool = False  # whether the server of the model refused some of its messages
    last_checked: Any = None  # the last message that was looked at for that; None before the first
    # The other runs of the thread that wait: up to which entry its memory shows them.
    parked_runs: dict[str, int] = field(default_factory=dict)
    workers: Any = None  # a `Workers` of what works for it in the background; None without any
    runs: KnownRuns | None = None  # those of a journal that it knows; None without a journal
    uses: int = 0  # how many replies and other calls are using it
    is_abandoned: bool = False  # whether its sender has left: it goes when nothing uses it

    def begin_texts(self, on_behalf: Texts | None) -> Texts:
        """Keep texts by origin from now on, since something from outside was read."""
        from moothall.actions.provenance.texts import Texts  # its tables take 15 ms to import

        self.texts_by_origin = texts = Texts(on_behalf)
        return texts

    def keep_text(self, text: Any, limit: int) -> bool:
        """Keep a text for the next reply; return False if `limit` texts wait already."""
        with _LOCK:
            if len(self.pending_texts) >= limit:
                return False
            self.pending_texts.append(text)
            return True

    def take_texts(self) -> tuple[Any, ...]:
        """Return the texts kept for the next reply, and clear them."""
        with _LOCK:
            texts = tuple(self.pending_texts)
            del self.pending_texts[: len(texts)]
        return texts

    def forget(self) -> None:
        """Know nothing of earlier runs; what may be in the context stays marked as from outside."""
        self.memory = self.results = self.agent_state = None
        self.stored_messages = self.last_checked = self.runs = None
        self.parked_runs.clear()

    def renew(self) -> None:
        """Have no reply under way: those of the parent are not in a forked child."""
        self.turn_lock.renew()
        self.reply, self.uses = None, 0

    @staticmethod
    def id_for(sender: str, thread: str | None = None) -> str:
        """Return the id of a sender's thread, unique to that sender."""
        quoted_sender = sender.replace("%", "%25").replace("/", "%2F")
        id = sender if _SESSION.fullmatch(sender) else quoted_sender
        if thread is not None:
            id = f"{id}/{thread}"
        elif id == "default":  # the name of the agent's own thread in a durable memory
            id = "%64efault"
        return shortened_id(id)

    @staticmethod
    def session_sender(sender: str, session: str) -> str:
        """Return the sender of a session of a caller at a door; its threads are below the caller's.

        `sender` has no `/`.
        """
        return f"{sender}/{sha256(session.encode()).hexdigest()[:16]}"

    @staticmethod
    def sender_of(id: str) -> str:
        """Return the sender of a thread; empty if the id was too long to tell it."""
        if session := _SESSION.match(id):
            return session[0]
        return "" if id.startswith(_HASH_PREFIX) else unquote(id.partition("/")[0])

    @staticmethod
    def is_below(thread: str, sender: str) -> bool:
        """Return whether a thread is a sender's, a session's of it, or on behalf of one."""
        quoted = sender.replace("%", "%25").replace("/", "%2F")
        ids = (quoted, _hashed_id(quoted))
        return any(part in ids for part in thread.split("/"))


class Threads:
    """The threads of one agent: its own, and many others, the least recently used dropped first."""

    __slots__ = ("__weakref__", "_by_id", "_turn_lock", "default")

    def __init__(self, one_by_one: bool = False) -> None:
        self.default: Thread = Thread(None)
        self._turn_lock = self.default.turn_lock if one_by_one else None
        self._by_id: OrderedDict[str, Thread] = OrderedDict()
        _ALL_THREADS.add(self)

    def get(self, id: str | None) -> Thread:
        """Return the thread of that id; create it if it is new."""
        if id is None:
            return self.default
        with _LOCK:
            return self._get(id)

    def take(self, id: str) -> Thread:
        """Return the thread of that id; it is in use until `release` is called."""
        with _LOCK:
            thread = self._get(id)
            thread.uses += 1
            return thread

    def release(self, thread: Thread) -> bool:
        """End a use of the thread; return whether its sender has left and it is gone now."""
        with _LOCK:
            thread.uses -= 1
            is_gone = thread.is_abandoned and not thread.uses
            if is_gone and self._by_id.get(thread.id or "") is thread:
                del self._by_id[thread.id or ""]
            return is_gone

    def drop(self, id: str) -> None:
        """Drop a thread: one in use at the end of its use, for which the next of its id waits."""
        with _LOCK:
            thread = self._by_id.get(id)
            if thread is not None and thread.uses:
                thread.is_abandoned = True
            else:
                self._by_id.pop(id, None)

    def _get(self, id: str) -> Thread:
        threads, turn_lock = self._by_id, self._turn_lock
        try:
            threads.move_to_end(id)
            if not threads[id].is_abandoned:
                return threads[id]
            # It is still in use: a reply in the new thread waits for the one under way.
            turn_lock = threads.pop(id).turn_lock
        except KeyError:
            pass
        if len(threads) >= MAX_THREADS:
            oldest = next((each for each in list(threads.values()) if not each.uses), None)
            if oldest is not None:
                threads.pop(oldest.id or "", None)
        return threads.setdefault(id, Thread(id, turn_lock or TurnLock()))

    def forget_sender(self, sender: str, within: str | None = None) -> list[str]:
        """Drop a leaving sender's threads, or that `within` one of its own; return their ids.

        Those in use are dropped at the end of their use.
        """
        key = Thread.id_for(sender, within)
        with _LOCK:
            ids = [
                id
                for id in list(self._by_id)
                if id == key or (within is None and Thread.sender_of(id) == sender)
            ]
            for id in ids:
                self.drop(id)
        return ids

    def owned_by(self, sender: str) -> list[Thread]:
        """Return a sender's threads."""
        key = Thread.id_for(sender)
        return [each for each in self if each.id == key or Thread.sender_of(str(each.id)) == sender]

    def busy_threads(self) -> list[Thread]:
        """Return the threads that have a reply under way."""
        with _LOCK:
            return [each for each in (self.default, *self._by_id.values()) if each.reply]

    def _renew(self) -> None:
        for thread in (self.default, *self._by_id.values()):
            thread.renew()

    def __iter__(self) -> Iterator[Thread]:
        """Iterate over the threads except the agent's own, the least recently used first."""
        with _LOCK:
            return iter(list(self._by_id.values()))


_ALL_THREADS: Final[WeakSet[Threads]] = WeakSet()


def _after_fork() -> None:
    for threads in list(_ALL_THREADS):
        threads._renew()


in_child(_after_fork)


def shortened_id(id: str) -> str:
    """Return the id of a thread; of one that is too long, a hash below whom it belongs to."""
    if len(id) <= _MAX_ID_CHARS and not id.startswith(_HASH_PREFIX):
        return id
    hashed, (first, rest, _) = _hashed_id(id), id.partition("/")
    if not rest or first.startswith(_HASH_PREFIX):
        return hashed
    parent = id[: _MAX_ID_CHARS - len(hashed)].rpartition("/")[0] or _hashed_id(first)
    return f"{parent}/{hashed}"


def _hashed_id(id: str) -> str:
    return f"{_HASH_PREFIX}{sha256(id.encode(errors='surrogatepass')).hexdigest()}"


@dataclass(slots=True, eq=False, repr=False)
class Interruption:
    """A text sent to an agent that may be replying.

    It is true if a reply was under way. Awaiting it waits until that reply has heard the text.
    """

    _receipt: concurrent.futures.Future[None] | None

    def __bool__(self) -> bool:
        return self._receipt is not None

    def __await__(self) -> Generator[Any, None, bool]:
        if self._receipt is not None:
            yield from asyncio.wrap_future(self._receipt).__await__()
        return bool(self)

    def __repr__(self) -> str:
        return f"<Interruption of {'a reply' if self else 'nothing'}>"


def steer(thread: Thread, text: Any, keep: Callable[[Any, Thread], None]) -> Interruption:
    """Interrupt the reply under way in a thread; without one, `keep` the text for the next."""
    reply = thread.reply
    if reply is None:
        keep(text, thread)
        return Interruption(None)
    receipt: concurrent.futures.Future[None] = concurrent.futures.Future()

    def deliver() -> None:
        try:
            if thread.reply is reply:
                reply.interrupt(text)
            else:  # the reply has ended meanwhile
                keep(text, thread)
        except Exception as error:  # such as MailboxFull
            receipt.set_exception(error)
        else:
            receipt.set_result(None)

    if asyncio._get_running_loop() is reply.loop:
        deliver()
        receipt.result()
        reply.loop.call_soon_threadsafe(lambda: None)  # a signal alone does not wake its loop
        return Interruption(receipt)
    try:
        reply.loop.call_soon_threadsafe(deliver)
    except RuntimeError:  # its loop has ended
        keep(text, thread)
        return Interruption(None)
    return Interruption(receipt)
