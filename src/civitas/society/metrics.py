"""The row of metrics of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from civitas.society.population.life import measured

if TYPE_CHECKING:
    from civitas.society.steps import Steps


def row_of(society: Steps, delivered: int, failures: int) -> dict[str, Any]:
    """Return what is measured after a step.

    Args:
        society: between its commit stage and its next step
        delivered: how many messages were delivered
        failures: how many agents and interventions have failed
    """
    home = work = 0
    owned = sum(_owed(each) for each in society.services.values() if each.deposits)
    own: dict[str, Any] = {}
    if society.population is not None:
        home, work, cents, own = measured(society.population)
        owned += cents
    for seat in society._citizens if society.population is None else ():
        status = seat.agent.memory.status
        owned += status["money"]
        place = status["place"]
        if place is not None:
            if place == status.get("home"):
                home += 1
            elif place == status.get("work"):
                work += 1
    return {
        "step": society.number,
        "time": society.clock.moment.isoformat(),
        "moving": society.books.travelled,
        "home": home,
        "work": work,
        "money": society.books.total,
        "owned": owned,
        "messages": delivered,
        "failures": failures,
        "fallbacks": society.fallbacks,
        "model_calls": society._asking.calls,
        **own,
    }


def _owed(service: Any) -> int:
    """The sum of a service's deposits, in cents."""
    return service.owed if hasattr(service, "owed") else sum(service.deposits.values())
