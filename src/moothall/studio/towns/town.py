"""A society that pages watch: it plays, pauses between two steps, and is packed into frames."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from os import environ
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError, MoothallError
from moothall.build import error_text, guard
from moothall.society import METRICS, charts
from moothall.studio.orders.order import record_order
from moothall.studio.orders.simulate import SimulateOrder, society_of
from moothall.studio.towns.frame import pack_frame
from moothall.studio.towns.shown import ModelMap, ShownRun, map_of, whereabouts_of

if TYPE_CHECKING:
    from moothall import Journal, Society
    from moothall.society import Whereabouts
    from moothall.studio.towns.map import TownMap

MAX_CITIZENS: Final = 100_000
"""The most citizens of a town."""
_MAX_ROWS: Final = 3_000
"""The most rows that a page gets: the last ones."""
_FRAME_S: Final = 0.1
"""The least time between two frames while the society plays, in seconds."""
_SPEED: Final = 4.0
_CLOSE_S: Final = 20.0
_SETUP_TIMEOUT_S: Final = 10.0
"""So long a question to a town that is being set up waits for it, in seconds."""
_MAX_EVENTS: Final = 50_000
"""How many of the last events are kept, for the log and the cards of citizens."""
_MAX_SENT_EVENTS: Final = 500
"""The most events that a page gets at once: the last ones."""
_NO_LEVEL: Final = 255
"""The level of a citizen that has none in a layer of the map; the others go from 0 to 254."""
_NOWHERE: Final = 65_535
"""The coordinate of a citizen at no place; the others go from 0 to 65,534 over the bounds."""


class Town:
    """One society and its run, in a thread of its own until it has ended or is closed.

    A new town lives one step (the first, or the one after the last recorded), then pauses. So its
    run is always under way, and what a person changes is recorded in it. A town that another one
    leads lives a step when that one has; the leading one waits for it. `speed` is in steps a
    second, 0 for as many as possible. `state` is `making`, `playing`, `paused`, `ended`, or
    `failed`; `fault` says why it failed.
    """

    def __init__(
        self,
        number: int,
        order: SimulateOrder | ShownRun,
        run_id: str,
        journal: Journal | None,
        publish: Callable[[str, Any], None],
    ) -> None:
        self.number: int = number
        self.order: SimulateOrder | ShownRun = order
        self.run_id: str = run_id
        self.society: Society | None = None
        self.state: str = "making"
        self.fault: str = ""
        self.speed: float = _SPEED
        self.interviews: deque[dict[str, Any]] = deque(maxlen=200)
        self._events: deque[tuple[int, int, str, str, str, str]] = deque(maxlen=_MAX_EVENTS)
        self._event_count = 0  # events so far
        self._names: dict[str, str] = {}  # of its citizens, once they are asked for
        self._layers: dict[str, str] = {}
        self._journal, self._publish = journal, publish
        self._loop: asyncio.AbstractEventLoop | None = None  # the society's, from its first step on
        self._paired_town: Town | None = None  # which it leads or follows
        self._is_follower = False
        self._wake_event = asyncio.Event()  # set when a person has pressed something
        self._is_between_steps = self._step_once = False  # between two steps; to live one more
        self._close_event = threading.Event()
        self._resumed_at = time.monotonic()
        self._mean_step_duration_s = self._shown_at = 0.0
        self._positions: Whereabouts | None = None
        self._made_event = threading.Event()  # set when pages can be shown it, or it has failed
        self._map: TownMap | ModelMap | None = None
        self._custom_metrics: dict[int, dict[str, float]] = {}  # a program's own metrics, by step
        self._act_counts: dict[int, list[int]] = {}  # how many did each act, by step lived here
        self._change_count = 0
        self._lock = guard()
        self._thread = threading.Thread(target=self._run_thread, name="moothall-town", daemon=True)
        self._thread.start()

    # -- living ------------------------------------------------------------------------------------

    def _run_thread(self) -> None:
        try:
            with self._new_society() as society:
                society.observe(self._on_message)
                self._map = map_of(society)
                self.society = society  # from here on, `close` closes it
                if self._close_event.is_set():
                    return
                asyncio.run(self._run(society))
                self._set_state("ended")
                self._close_event.wait()
        except Exception as error:  # pages show it
            if not self._close_event.is_set():
                self.fault = str(error) if isinstance(error, MoothallError) else error_text(error)
                self._made_event.set()
                self._set_state("failed")

    def _new_society(self) -> Society:
        if isinstance(self.order, ShownRun):
            return self.order.society
        return society_of(self.order, self._journal, environ.get("MOOTHALL_KEY"))

    async def _run(self, society: Society) -> None:
        order, options = self.order, dict[str, Any]()
        if isinstance(order, ShownRun):
            options["steps"] = order.step_count
        elif self._journal is not None:
            await record_order(order, self._journal, self.run_id, society)
            options = {"days": order.days, "save_every": order.save_every}
        self._resumed_at = time.monotonic()
        if society.journal is not None:
            options["run_id"] = self.run_id
        await society.run(step=order.step, progress=self._after_step, **options)
        self._note_positions(society)

    async def _after_step(self, row: dict[str, Any]) -> None:
        """Wait after a step, on the society's loop, until the next one may begin."""
        assert self.society is not None
        self._loop = asyncio.get_running_loop()
        self._act_counts[row["step"]] = self.society.act_counts()
        if isinstance(self.order, ShownRun):
            values = {name: float(fn(self.society)) for name, fn in self.order.metrics.items()}
            self._custom_metrics[row["step"]] = values
        for step, citizen_id, problem in [*self.society.failures]:
            if step == row["step"]:
                self._log_event("failure", citizen_id, problem[:300], step)
        elapsed = time.monotonic() - self._resumed_at
        mean_s = self._mean_step_duration_s
        self._mean_step_duration_s = 0.7 * mean_s + 0.3 * elapsed if mean_s else elapsed
        due_at = self._resumed_at + (1 / self.speed if self.speed else 0)
        self._is_between_steps = True
        remaining_s = self._seconds_to_wait(due_at)
        if remaining_s is None or remaining_s > 0 or time.monotonic() - self._shown_at >= _FRAME_S:
            self._note_positions(self.society)
        elif self._paired_town is not None:
            self._paired_town.wake()
        while not self._step_once and self.step < self.order.steps:
            if (remaining_s := self._seconds_to_wait(due_at)) is not None and remaining_s <= 0:
                break
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining_s):
                    await self._wake_event.wait()
            self._wake_event.clear()
        self._is_between_steps = self._step_once = False
        self._resumed_at = time.monotonic()

    def _seconds_to_wait(self, due_at: float) -> float | None:
        """Return how many seconds it waits before the next step; None: until it is woken."""
        other, step = self._paired_town, self.step
        if self._is_follower:
            return 0 if other is not None and other.step > step else None
        if self.state != "playing" or (other is not None and other.is_behind(step)):
            return None
        return due_at - time.monotonic()

    def is_behind(self, step: int) -> bool:
        """Whether it still comes to a step that it has not lived."""
        return self.step < min(step, self.order.steps) and not self.is_over

    @property
    def step(self) -> int:
        """How many steps it has lived."""
        return 0 if self.society is None else self.society.number

    def set_follower(self, other: Town | None) -> None:
        """Have another town follow this one, or none."""
        self._paired_town, self._is_follower = other, False
        if other is not None:
            other._paired_town, other._is_follower = self, True
            other.wake()
        self.wake()

    def wake(self) -> None:
        """Have it look anew whether it is to live a step."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the run has just ended
                self._loop.call_soon_threadsafe(self._wake_event.set)

    def _on_message(self, message: dict[str, Any]) -> None:
        action = message["action"]
        text = action["args"].get("content")
        if not isinstance(text, str):
            text = json.dumps(action["args"], ensure_ascii=False, default=str)
        kind = "message" if action["name"] == "say" else action["name"]
        self._log_event(kind, message["from"], text[:500], to=message["to"])

    def _log_event(
        self, kind: str, author: str, text: str, step: int | None = None, to: str = ""
    ) -> None:
        """Add an event to the log; a message is `to` somebody."""
        self._event_count += 1
        self._events.append(
            (self._event_count, self.step if step is None else step, kind, author, to, text)
        )

    def messages(self, citizen: str) -> list[Any]:
        """Return the messages that a citizen has sent and got, as events, the oldest first."""
        return [each for each in [*self._events] if each[4] and citizen in each[3:5]]

    def events(self, after: int) -> dict[str, Any]:
        """Return the last events after a number, as [number, step, kind, who, to, text].

        `names` has the names of the citizens in them, by id.
        """
        events = [each for each in [*self._events] if each[0] > after][-_MAX_SENT_EVENTS:]
        if not self._names:
            agents = self.wait_for_society().agents
            self._names = {str(each.id): getattr(each, "name", None) or "" for each in agents}
        ids = {id for each in events for id in each[3:5]}
        names = {id: name for id in ids if (name := self._names.get(id))}
        last = self._event_count
        return {"town": self.number, "events": events, "names": names, "last": last}

    def custom_values(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a status that blocks of a program's own keep, by name for people."""
        return {name: status[path] for path, name in self._layers.items() if path in status}

    # -- what a person does ------------------------------------------------------------------------

    def control(self, do: str | None = None, speed: float | None = None) -> None:
        """Play until paused or ended (`play`), `pause`, live one `step`, or set the speed."""
        with self._lock:  # the run may end meanwhile, and then stays so
            if self.is_over:
                raise ConfigError("the run has ended: set up another town")
            self.speed = self.speed if speed is None else speed
            if do is not None:
                self.state, self._step_once = "playing" if do == "play" else "paused", do == "step"
        self.wake()
        self.notify_pages()

    def wait_for_society(self) -> Society:
        """Return the society once it is made; raise ConfigError if that lasts, or it has failed."""
        self._made_event.wait(_SETUP_TIMEOUT_S)
        if self.fault:
            raise ConfigError(f"the town has failed: {self.fault}")
        if self.society is None or self._positions is None:
            raise ConfigError("the town is being set up: wait a moment")
        return self.society

    def intervene(self, **change: Any) -> int:
        """Change the world at the start of the next step; return that step's number."""
        from moothall.society import Intervention

        society = self.wait_for_society()
        while True:
            step = society.number + (not self._is_between_steps)
            if self.is_over or step >= self.order.steps:
                raise ConfigError("no step comes any more in which that could be done")
            try:
                society.intervene(Intervention(step, **change))
            except ConfigError:
                if step == society.number + (not self._is_between_steps):
                    raise
                continue  # a step has begun meanwhile
            description = "; ".join(f"{name}: {value}" for name, value in change.items())
            self._log_event("change", "you", description, step)
            self._note_change()
            return step

    def add_interview(self, data: dict[str, Any]) -> None:
        """Keep an interview or a survey, and tell all pages."""
        self.interviews.append({"step": self.wait_for_society().number, **data})
        subject = f"citizen {data['citizen']}" if "citizen" in data else f"{data['asked']} citizens"
        self._log_event(data["kind"], "you", f"asked {subject}: {data['question']}")
        self._note_change()

    def _note_change(self) -> None:
        self._change_count += 1
        self.notify_pages()

    def close(self) -> None:
        """End the town; its run can be resumed from its last checkpoint."""
        self._close_event.set()
        self._made_event.set()
        if self.society is not None:
            self.society.close()
        self._thread.join(_CLOSE_S)

    # -- what pages are told -----------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it lives no more step."""
        return self.state in ("ended", "failed")

    def _set_state(self, state: str | None = None) -> None:
        """Be in a state, or leave `making`; tell pages and the other town."""
        with self._lock:  # what a person presses meanwhile is not undone
            if state is not None or self.state == "making":
                self.state = state or "paused"
        self.notify_pages()
        if self._paired_town is not None:
            self._paired_town.wake()

    def notify_pages(self) -> None:
        """Tell all pages that there is something new."""
        data = {"town": self.number, "step": self.step, "state": self.state}
        self._publish("step", data)

    def _note_positions(self, society: Society) -> None:
        """Note where citizens are, and tell all pages."""
        self._positions, self._shown_at = whereabouts_of(society), time.monotonic()
        self._made_event.set()
        self._set_state()

    def _level(self, layer: str) -> tuple[bytes, dict[str, Any]]:
        """Return a level for each citizen in a layer of the map, and what the layer is."""
        import numpy as np

        positions = self._positions
        if self.society is None or positions is None or layer not in self._layers:
            return b"", {}
        values = self.society.levels(layer)
        if len(values) != len(positions.ids):  # one was born or died since
            return b"", {}
        present = values[~np.isnan(values)]
        low, high = (0.0, 1.0) if not len(present) else np.percentile(present, (2, 98)).tolist()
        kind = layer.partition(".")[0]
        low, high = {"needs": (0, 1000), "opinions": (-1000, 1000)}.get(kind, (low, high))
        levels = np.clip((values - low) / ((high - low) or 1), 0, 1) * (_NO_LEVEL - 1)
        level_bytes = np.nan_to_num(levels, nan=_NO_LEVEL).astype(np.uint8).tobytes()
        return level_bytes, {"layer": layer, "least": low, "most": high}

    def _position_bytes(self) -> bytes:
        """Return where citizens are, as bytes for `frame`; empty before they are there."""
        import numpy as np

        positions, drawn_map = self._positions, self._map
        if positions is None or drawn_map is None:
            return b""
        west, south, width, height = drawn_map.bounds
        xs, ys = drawn_map.drawn_positions(positions)
        parts = []
        for values, start, size in ((xs, west, width), (ys, south, height)):
            scaled = (np.array(values, dtype=np.float64) - start) / size * (_NOWHERE - 1)
            parts.append(np.nan_to_num(scaled, nan=_NOWHERE).astype("<u2").tobytes())
        return b"".join((*parts, np.array(positions.act, dtype=np.uint8).tobytes()))

    def frame(self, after: int, layer: str = "", other_number: int | None = None) -> bytes:
        """Return the length of the head in four bytes, the head as JSON, and where citizens are.

        For n citizens these are n x, then n y (each 16 bits, little-endian, scaled to the bounds of
        the map; 65,535 for nowhere), then what each does (8 bits, an index of `acts`), then if the
        head has a `level`, that of each in the layer (8 bits; 255 for none). Citizens are in id
        order; `ids` has theirs, none if they are the numbers from 1. `beside` is the number of the
        town beside this one. `is_own`: a program's own society, which cannot be forked here.
        """
        import numpy as np

        from moothall.society import NeedsBlock, Question

        society, order = self.society, self.order
        run = order if isinstance(order, ShownRun) else None
        head: dict[str, Any] = {
            "town": self.number,
            "run": self.run_id,
            "state": self.state,
            "fault": self.fault,
            "about": f"{order.task}, by {order.model or 'rules'}" if run is None else order.task,
            "is_own": run is not None,
            "by": None if run is None else run.by,
            "model": order.model,
            "steps": order.steps,
            "speed": self.speed,
            "changes": self._change_count,
            "beside": other_number,
        }
        body = self._position_bytes()
        if society is not None and body:
            assert self._positions is not None
            acts, ids = self._positions.acts, self._positions.ids
            if not self._layers:
                self._layers = {
                    path: name
                    for path, name in society.status_numbers().items()
                    if run is None or not np.isnan(society.levels(path)).all()
                }
            level_bytes, level_data = self._level(layer)
            body += level_bytes
            columns, rows, custom_columns = self._table(
                max(after, len(society.metrics) - _MAX_ROWS)
            )
            head |= {
                "step": society.number,
                "time": society.clock.moment.isoformat(),
                "start": society.clock.start.isoformat(),
                "step_s": society.clock.step_s,
                "ids": None if ids == [*map(str, range(1, len(ids) + 1))] else ids,
                "rate": round(len(ids) / mean_s) if (mean_s := self._mean_step_duration_s) else 0,
                "rows": rows,
                "closed": sorted(society.changed.closed),
                "closed_roads": sorted({id for id, _ in society.changed.closed_roads}),
                "columns": columns,
                "charts": charts(),
                "own": custom_columns,
                "metrics": [
                    *([each.name, each.label or each.name, each.scale] for each in METRICS),
                    *([name, name, 1] for name in custom_columns),
                ],
                "layers": [*self._layers.items()],
                "level": level_data or None,
                "events": self._event_count,
                "acts": acts,
                "needs": [*NeedsBlock.kinds],
                "kinds": [
                    [n, k.label, k.has_choices] for n, k in Question.kinds.items() if k.label
                ],
                "topics": society.topics,
            }
        return pack_frame(head, body)

    def _table(self, first: int) -> tuple[list[str], list[list[Any]], list[str]]:
        """Return the columns and rows of the charts from a step on, and the program's own names."""
        society = self.wait_for_society()
        assert self._positions is not None
        acts, names = self._positions.acts, [each.name for each in METRICS]
        custom_columns = [
            name for name in society.metrics[-1] if name not in {"step", "time", *names}
        ]
        custom_columns += self.order.metrics if isinstance(self.order, ShownRun) else ()
        columns = ["step", "time", *names, *custom_columns]
        unknown_counts = [None] * len(acts)  # of steps before the studio resumed the run
        rows = [
            [
                *map({**row, **self._custom_metrics.get(row["step"], {})}.get, columns),
                *self._act_counts.get(row["step"], unknown_counts),
            ]
            for row in society.metrics[first:]
        ]
        return [*columns, *(f"act.{each}" for each in acts)], rows, custom_columns

    def as_csv(self) -> str:
        """Return the charts of all steps as CSV: a row a step."""
        lines = io.StringIO()
        columns, rows, _ = self._table(0)
        csv.writer(lines).writerows([columns, *rows])
        return lines.getvalue()

    def map_data(self) -> dict[str, Any]:
        """Return the map, as `TownMap.data` does."""
        self.wait_for_society()
        assert self._map is not None
        return self._map.data()
