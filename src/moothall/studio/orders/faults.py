"""What cannot be carried out of an order: each fault knows the setting that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from moothall import ConfigError, MoothallError


def fault(name: str, text: str) -> ConfigError:
    """Return what is wrong with a setting, as the command has it: `--max-usd`, and the text."""
    return ConfigError(f"--{name.replace('_', '-')}{text}", argument=name)


def check_none(faults: Iterable[ConfigError]) -> None:
    """Raise one error that tells all faults, if there are any; it is about the first one's."""
    if fault_list := [*faults]:
        raise ConfigError("\n".join(map(str, fault_list)), argument=fault_list[0].argument)


@contextmanager
def about(name: str) -> Iterator[None]:
    """Have an error within be about a setting."""
    try:
        yield
    except MoothallError as error:
        error.argument = name
        raise
