"""The threads of an agent: what belongs to each conversation, and which are kept."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from civitas.memory.memory import Memory
from civitas.threads import settle

if TYPE_CHECKING:
    from civitas.agent import Handling

MAX_THREADS: Final = 1000
"""How many threads of an agent are kept in the process."""

# One for all: it is held for a few instructions, and agents are many.
_GUARD = threading.Lock()


class Underway(Protocol):
    """A reply under way, as far as it can be steered. On its own loop only."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it runs on."""
        ...

    def interrupt(self, text: Any) -> None:
        """Stop what it is doing, and go on with this."""
        ...


class Turns:
    """A lock for coroutines that, unlike `asyncio.Lock`, belongs to no loop.

    An agent may be asked by several `asyncio.run` calls one after the other, and by threads with
    loops of their own at the same time. The first to ask has the first turn.

    Attributes:
        handling: the message that led to the turn under way, or None
    """

    __slots__ = ("_taken", "_waiting", "handling")

    def __init__(self) -> None:
        self._taken = False
        self.handling: Handling | None = None
        # Made when somebody has to wait: most agents are asked by one at a time.
        self._waiting: deque[asyncio.Future[None]] | None = None

    async def take(self) -> None:
        """Wait for one's turn. Cancelled, one has none and those behind move up."""
        with _GUARD:
            if not self._taken:
                self._taken = True
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._waiting is None:
                self._waiting = deque()
            waiting = self._waiting
            waiting.append(turn)
        try:
            await turn
        except BaseException:
            with _GUARD:
                if turn in waiting:
                    waiting.remove(turn)
                    raise
            self.end()  # the turn had been given already
            raise

    def end(self) -> None:
        """End one's turn; the next begins."""
        with _GUARD:
            self.handling = None
            while self._waiting:
                if settle(self._waiting.popleft()):
                    return
            self._taken = False


@dataclass(slots=True, eq=False)
class Thread:
    """One conversation of an agent."""

    id: str | None  # None for the agent's own
    turns: Turns = field(default_factory=Turns)  # may be those of all threads of the agent
    memory: Memory | None = None  # None until it is first used
    underway: Underway | None = None  # the reply under way, if it can be steered
    unheard: tuple[Any, ...] = ()  # what was said while no reply was under way
    discovered: dict[str, Any] | None = None  # other agents' actions that were found last, by name
    shown: Any = None  # the actions as the model was shown them last, with what they were made of
    own: Any = None  # what an orchestrator keeps for the thread
    uses: int = 0  # how many replies and the like are using it
    left: bool = False  # whether its sender has left: it goes when nothing uses it

    def keep(self, text: Any, most: int) -> bool:
        """Keep what the next reply is to hear; False if so much waits already."""
        with _GUARD:
            if len(self.unheard) >= most:
                return False
            self.unheard = (*self.unheard, text)
            return True

    def hear(self) -> tuple[Any, ...]:
        """What was said while no reply was under way; given once."""
        if not self.unheard:
            return ()
        with _GUARD:
            unheard, self.unheard = self.unheard, ()
        return unheard


class Threads:
    """The threads of one agent.

    The agent's own is always kept. Of the others there are so many; the one used longest ago is
    dropped first, and none that is in use. May be used in any thread of the process.

    Attributes:
        default: the agent's own thread
    """

    __slots__ = ("_by_id", "_turns", "default")

    def __init__(self, together: bool = False) -> None:
        self.default = Thread(None)
        self._turns = self.default.turns if together else None
        self._by_id: OrderedDict[str, Thread] = OrderedDict()

    def get(self, id: str | None) -> Thread:
        """The thread of that id; made if there is none."""
        if id is None:
            return self.default
        with _GUARD:
            return self._get(id)

    def take(self, id: str | None) -> Thread:
        """The same, in use until `release` is called."""
        with _GUARD:
            thread = self.default if id is None else self._get(id)
            thread.uses += 1
            return thread

    def release(self, thread: Thread) -> None:
        """A use has ended."""
        with _GUARD:
            thread.uses -= 1
            id = thread.id
            if thread.left and not thread.uses and id and self._by_id.get(id) is thread:
                del self._by_id[id]

    def _get(self, id: str) -> Thread:
        threads = self._by_id
        thread = threads.get(id)
        if thread is not None:
            threads.move_to_end(id)
            return thread
        if len(threads) >= MAX_THREADS:
            oldest = next((key for key, each in threads.items() if not each.uses), None)
            if oldest is not None:
                del threads[oldest]
        thread = threads[id] = Thread(id, self._turns or Turns())
        return thread

    def forget_sender(self, sender: str) -> list[str]:
        """Drop the threads of a sender that has left; those in use when their use ends."""
        key, prefix = thread_of_sender(sender), f"{_quoted(sender)}/"
        with _GUARD:
            ids = [id for id in self._by_id if id == key or id.startswith(prefix)]
            for id in ids:
                thread = self._by_id[id]
                if thread.uses:
                    thread.left = True
                else:
                    del self._by_id[id]
        return ids

    def under_way(self) -> list[Thread]:
        """The threads that have a reply under way."""
        with _GUARD:
            return [each for each in (self.default, *self._by_id.values()) if each.underway]

    def __iter__(self) -> Iterator[Thread]:
        """The threads but for the agent's own, the one used longest ago first."""
        with _GUARD:
            return iter(list(self._by_id.values()))


def thread_of_sender(sender: str, thread: str | None = None) -> str:
    """The id of a sender's thread, which no other sender's thread has."""
    id = _quoted(sender)
    if thread is not None:
        id = f"{id}/{thread}"
    elif id == "default":  # what a durable memory calls the agent's own
        id = "%64efault"
    if len(id) > 255 or id.startswith("sha256:"):
        id = f"sha256:{sha256(id.encode(errors='surrogatepass')).hexdigest()}"
    return id


def _quoted(sender: str) -> str:
    return sender.replace("%", "%25").replace("/", "%2F")


class Interruption:
    """What was said to an agent that may be replying.

    True where a reply was under way. Awaited, it waits until that has heard it.
    """

    __slots__ = ("_heard",)

    def __init__(self, heard: concurrent.futures.Future[None] | None) -> None:
        self._heard = heard

    def __bool__(self) -> bool:
        return self._heard is not None

    def __await__(self) -> Generator[Any, None, bool]:
        if self._heard is not None:
            yield from asyncio.wrap_future(self._heard).__await__()
        return bool(self)

    def __repr__(self) -> str:
        return f"<Interruption of {'a reply' if self else 'nothing'}>"


def steer(thread: Thread, text: Any, keep: Callable[[Any, Thread], None]) -> Interruption:
    """Tell the reply that is under way in a thread; without one, `keep` has the next hear it."""
    underway = thread.underway
    if underway is None:
        keep(text, thread)
        return Interruption(None)
    heard: concurrent.futures.Future[None] = concurrent.futures.Future()

    def tell() -> None:
        try:
            if thread.underway is underway:
                underway.interrupt(text)
            else:  # it has ended meanwhile
                keep(text, thread)
        except Exception as error:  # too much waits already
            heard.set_exception(error)
        else:
            heard.set_result(None)

    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is underway.loop:
        tell()
        heard.result()
        return Interruption(heard)
    try:
        underway.loop.call_soon_threadsafe(tell)
    except RuntimeError:  # its loop has ended
        keep(text, thread)
        return Interruption(None)
    return Interruption(heard)
