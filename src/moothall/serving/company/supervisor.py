"""A supervisor starts a part again after each death, later each time, and gives up after many."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from moothall import ConfigError, DefinitionError, GivenUp
from moothall.build import check_integer, counted, error_text, log_failure

logger: logging.Logger = logging.getLogger("moothall.serving.company")

State: TypeAlias = Literal["starting", "running", "standby", "waiting", "stopped", "given up"]
"""What a supervised part is doing: `waiting` is the delay before it is started again, `standby` is
while another process has its id."""

_LONGEST_S: Final = 1e6


@dataclass(frozen=True)
class Restart:
    """How often a dead part is started again, and after which delays.

    The first delay is `first` seconds, and each is twice the one before, `longest` at most. Each is
    multiplied by a random factor from 0.5 to 1, so that several that died together do not start
    together. After it has run for `steady` seconds, the delays begin anew.

    Args:
        most: so many restarts are made `within` seconds; the next death is the last
        within: seconds
        first: seconds
        longest: seconds
        steady: seconds

    Raises:
        ConfigError: an argument is not valid
    """

    most: int = 5
    within: float = 600.0
    first: float = 0.2
    longest: float = 30.0
    steady: float = 60.0

    def __post_init__(self) -> None:
        check_integer("Restart: most=", self.most, 0)
        for name in ("within", "first", "longest", "steady"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value <= _LONGEST_S:
                raise ConfigError(
                    f"Restart: {name}= must be 0 to {_LONGEST_S:,.0f} seconds, got {value!r:.80}"
                )

    def delay(self, deaths: int) -> float:
        """Return the seconds to wait after so many deaths in a row."""
        # Bounded, since 2.0 ** 1024 is an OverflowError.
        doubled = self.first * 2.0 ** min(deaths - 1, 64)
        return min(doubled, self.longest) * random.uniform(0.5, 1.0)


@dataclass(eq=False)
class Supervised:
    """One supervised part, as its work and an operator see it.

    Attributes:
        name: its name
        state: what it is doing
        since: when it came to that, in seconds since 1970
        deaths: how often it has died
        restarts: how often it has run again after a death
        error: why it died last; empty before
    """

    name: str
    restart: Restart
    changed: Callable[[Supervised], Any]
    state: State = "starting"
    since: float = field(default_factory=time.time)
    deaths: int = 0
    restarts: int = 0
    error: str = ""
    _is_dead: bool = False  # whether it has not run since its last death
    running_since: float | None = None  # since when it runs, on the monotonic clock

    def running(self) -> None:
        """Note that the part runs; its work calls this once it has started."""
        # A restart counts once the part runs: an attempt that fails is another death.
        if self._is_dead:
            self.restarts += 1
            self._is_dead = False
        self.running_since = time.monotonic()
        self.set("running")

    def set(self, state: State) -> None:
        """Set the part's state."""
        self.state, self.since = state, time.time()
        self.changed(self)

    def note_death(self, error: BaseException) -> None:
        """Count a death, and note its error."""
        self.deaths += 1
        self.error = error_text(error, 1000)
        self._is_dead = True


class Supervisor:
    """Runs parts of a program, and calls a part again after it raises.

    Args:
        restart: how often, and after which delays
        changed: called with a part whenever its state changes; a plain function

    Example:
        >>> import asyncio
        >>> from moothall.serving import Restart, Supervised, Supervisor
        >>> tries = []
        >>> async def work(part: Supervised) -> None:
        ...     tries.append(part.deaths)
        ...     part.running()
        ...     if part.deaths < 2:
        ...         raise ConnectionError("the line is dead")
        >>> asyncio.run(Supervisor(Restart(first=0.01)).keep("line", work))
        >>> tries
        [0, 1, 2]
    """

    def __init__(
        self,
        restart: Restart | None = None,
        *,
        changed: Callable[[Supervised], Any] | None = None,
    ) -> None:
        if restart is not None and not isinstance(restart, Restart):
            raise ConfigError(f"restart= must be a Restart, got {restart!r:.80}")
        self.restart: Restart = Restart() if restart is None else restart
        self._on_change = changed
        self.parts: dict[str, Supervised] = {}

    async def keep(
        self,
        name: str,
        work: Callable[[Supervised], Awaitable[None]],
        *,
        restart: Restart | None = None,
    ) -> None:
        """Call `work(part)`, again after each exception, until it returns.

        Args:
            name: the part's name
            work: does the work until it is over; calls `part.running()` once it has started
            restart: another rule for this part

        Raises:
            GivenUp: it has died too often; `__cause__` is the last exception
            DefinitionError: a part of that name is supervised already
        """
        if name in self.parts and self.parts[name].state not in ("stopped", "given up"):
            raise DefinitionError(f"a part {name!r} is supervised already")
        rule = self.restart if restart is None else restart
        part = self.parts[name] = Supervised(name, rule, self._report_change)
        death_times: deque[float] = deque(maxlen=rule.most)
        deaths_in_a_row = 0
        try:
            while True:
                part.set("starting")
                part.running_since = None
                try:
                    await work(part)
                    return
                # A cancellation is the end of the part, and no death.
                except Exception as error:
                    now = time.monotonic()
                    was_steady = (
                        part.running_since is not None and now - part.running_since >= rule.steady
                    )
                    deaths_in_a_row = 1 if was_steady else deaths_in_a_row + 1
                    part.note_death(error)
                    log_failure(logger, f"{name!r} died", error)
                    # Where none is allowed, `times` stays empty and the first death is the last.
                    if len(death_times) == rule.most and (
                        not death_times or now - death_times[0] <= rule.within
                    ):
                        part.set("given up")
                        times_text = counted(part.deaths, "time")
                        raise GivenUp(
                            f"{name!r} died {times_text} and is not started again: {part.error}"
                        ) from error
                    death_times.append(now)
                part.set("waiting")
                await asyncio.sleep(rule.delay(deaths_in_a_row))
        finally:
            # Also if it is cancelled: the name is free for the next `keep`.
            if part.state != "given up":
                part.set("stopped")

    def _report_change(self, part: Supervised) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(part)
        except Exception as error:
            log_failure(logger, "changed= failed and is called no more", error)
            self._on_change = None
