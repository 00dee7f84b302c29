"""Facts that hold everywhere, by name, and the weather."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moothall import ConfigError
from moothall.build import NotJSON, check_integer, check_text, copy_json, excerpt
from moothall.society.clock import Clock
from moothall.society.kernel.draw import Draws


class Facts(Mapping[str, Any]):
    """Global facts: JSON values by name. They never change.

    Reading an array or object returns a copy.

    Raises:
        ConfigError: a name is not 1–255 printable characters, or a value is not JSON.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object] | None = None, /, **more: object) -> None:
        if not isinstance(values, Mapping | None):
            raise ConfigError(f"facts must be a dict, got {excerpt(values)}")
        facts = {**(values or {}), **more}
        for name in facts:
            check_text("facts: a name", name)
        try:
            self._values = copy_json(dict(sorted(facts.items())), "facts")
        except NotJSON as error:
            raise ConfigError(str(error)) from None

    def __getitem__(self, name: str) -> Any:
        return copy_json(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Facts({self._values!r})"


@dataclass(frozen=True, slots=True)
class DayWeather:
    """The weather of a day.

    Attributes:
        rain: whether it rains that day
        low: the lowest temperature, at 3:00, in tenths of a degree Celsius
        high: the highest temperature, at 15:00, likewise
    """

    rain: bool
    low: int
    high: int


class Weather:
    """A town's weather by day, drawn by seed: rain, and temperatures in tenths of a degree Celsius.

    A small weather generator in the manner of Richardson 1981 ("Stochastic simulation of daily
    precipitation, temperature, and solar radiation", Water Resources Research 17): rain is a Markov
    chain of two states. The day's mean temperature is a yearly curve plus 0.6 of yesterday's
    deviation plus a new one; wet days have a smaller range. The chain restarts each year on January
    1st, so any day takes at most 366 steps. All values are integers. The town is temperate: a
    yearly mean of 10 °C, 9 °C up and down over the year, coldest in the middle of January; it rains
    after a dry day with 25 %, after a wet day with 60 %, so on 38 % of days (0.25 ÷ (0.25 + 0.40)).

    Args:
        seed: the seed of the draws

    Raises:
        ConfigError: the seed is not a whole number 0 … 2⁶⁴−1.
    """

    def __init__(self, seed: int) -> None:
        check_integer("seed", seed, 0, 2**64 - 1)
        self._seed = seed
        self._days_of_year = functools.lru_cache(maxsize=4)(self._draw_year)

    def day(self, clock: Clock) -> DayWeather:
        """Return the weather of the day that a clock shows."""
        date = clock.moment
        return self._days_of_year(date.year)[date.timetuple().tm_yday - 1]

    def temperature(self, clock: Clock) -> int:
        """Return the temperature at a clock's moment, in tenths of a degree Celsius.

        It rises linearly from the low at 3:00 to the high at 15:00, and falls again; at midnight it
        jumps to the next day's.
        """
        day = self.day(clock)
        from_three = abs((clock.time - 3 * 3600 + 12 * 3600) % 86_400 - 12 * 3600)
        return day.low + (day.high - day.low) * from_three // (12 * 3600)

    def facts(self, clock: Clock) -> Facts:
        """Return `{"weather": {"rain": …, "temperature": …}}`, for the facts of a step."""
        return Facts(weather={"rain": self.day(clock).rain, "temperature": self.temperature(clock)})

    def _draw_year(self, year: int) -> tuple[DayWeather, ...]:
        days = []
        wet = Draws(self._seed, year, 0).below(100, "weather.first") < 38
        deviation = 0
        for day in range(366):
            draws = Draws(self._seed, year, day)
            wet = draws.below(100, "weather.rain") < (60 if wet else 25)
            # The sum of three draws of 0 … 40 is nearly normal, with a standard deviation of 2 °C.
            change = sum(draws.below(41, "weather.deviation", draw) for draw in range(3)) - 60
            deviation = deviation * 3 // 5 + change
            mean = 100 - 90 * _season(day) // 1000 + deviation
            days.append(DayWeather(wet, mean - (25 if wet else 45), mean + (25 if wet else 45)))
        return tuple(days)


def _season(day: int) -> int:
    """Return 1000 in mid-January to −1000 half a year later: Bhaskara's cosine, of integers."""
    degrees = (day - 14) % 365 * 360 // 365
    half = degrees if degrees <= 180 else 360 - degrees
    x = half if half <= 90 else 180 - half
    wave = 1000 * (32_400 - 4 * x * x) // (32_400 + x * x)
    return wave if half <= 90 else -wave
