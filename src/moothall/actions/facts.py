"""Facts of an action: what whoever approves a call of it reads beside the call, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from moothall.foundation.errors import ConfigError
from moothall.foundation.text import escaped, escaped_json

Fact: TypeAlias = str | int | float | bool
Facts: TypeAlias = Mapping[str, Fact]

NO_FACTS: Final[Facts] = {}


def check_facts(label: str, facts: object) -> None:
    """Raise unless these are texts, numbers and booleans by name."""
    if not isinstance(facts, Mapping):
        example = 'such as {"danger": "high"}'
        raise ConfigError(f"{label} must be facts by name, {example}, got {facts!r:.80}")
    for name, fact in facts.items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{label}: a fact must have a name, got {name!r:.80}")
        if not isinstance(fact, Fact) or fact != fact or fact in (float("inf"), -float("inf")):
            raise ConfigError(
                f"{label}: the fact {name!r:.80} must be a text, a finite number or a boolean, "
                f"got {fact!r:.80}"
            )


def facts_in_words(facts: Facts) -> str:
    """Return facts as they stand behind a call, such as ` (danger: high)`; empty for none."""
    parts = (
        f"{escaped(name)}: {escaped(fact) if isinstance(fact, str) else escaped_json(fact)}"
        for name, fact in facts.items()
    )
    return f" ({', '.join(parts)})" if facts else ""
