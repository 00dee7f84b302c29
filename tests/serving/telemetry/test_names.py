"""The names that we give, compared with those that OpenTelemetry publishes."""

from __future__ import annotations

import re

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, messaging_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from moothall.serving import telemetry
from moothall.serving.telemetry import names

DOTTED = re.compile(r"[a-z_]+(\.[a-z_]+)+")


def texts(of: object) -> set[str]:
    """The texts that a module defines, those in its tables too."""
    found: set[str] = set()
    for value in vars(of).values():
        each = value.values() if isinstance(value, dict) else (value,)
        found |= {one for one in each if isinstance(one, str)}
    return found


PUBLISHED = frozenset().union(
    *map(
        texts,
        (
            gen_ai_attributes,
            gen_ai_metrics,
            messaging_attributes,
            error_attributes,
            server_attributes,
        ),
    )
)


NEWER = {names.AGENT_DURATION, names.TOOL_DURATION, names.EVALUATION_RESULT}
"""In the conventions' own repository, and not yet in this package, or no name of an attribute."""


def test_telemetry_names_are_those_of_the_published_conventions() -> None:
    ours = {name for name in texts(names) if DOTTED.fullmatch(name)}
    of_others = {name for name in ours - NEWER if not name.startswith("moothall.")}
    assert len([name for name in of_others if name.startswith("gen_ai.")]) > 30
    assert of_others <= PUBLISHED


def test_telemetry_operations_are_published_but_for_plan() -> None:
    """`plan` is in the conventions' own repository, and not yet in this package."""
    published = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    ours = {
        names.CHAT,
        names.INVOKE_AGENT,
        names.INVOKE_WORKFLOW,
        names.EXECUTE_TOOL,
        names.RETRIEVAL,
    }
    assert ours <= published
    assert names.PLAN not in published


def test_telemetry_has_these_public_names() -> None:
    assert telemetry.__all__ == ["instrument", "uninstrument"]
    assert all(getattr(telemetry, name).__doc__ for name in telemetry.__all__)
