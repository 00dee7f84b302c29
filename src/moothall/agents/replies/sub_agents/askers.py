"""Who asks an agent: whose approver it asks, and whose run hears of it when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance.reading import current_reading
from moothall.agents.agent import CURRENT, Agent, Handling
from moothall.agents.replies.checked_parts import members_of
from moothall.agents.replies.reply_context import Replying, upward_of
from moothall.agents.replies.resume import shares_journal
from moothall.agents.replies.sub_agents.late_replies import ASKED_BY

if TYPE_CHECKING:
    from moothall.actions.approval import Approver


def who_asks(
    agent: Agent, replies: Sequence[Replying], handling: Handling | None
) -> Replying | Handling | None:
    """Return the reply, or the handler, that asks an agent and answers for it; None without one.

    It is the agent's group, or a reply whose action is made to ask it. The tools of an agent may
    ask any other, which that agent does not answer for. A message without `replies` counts if it is
    a request.
    """
    caller = next((each for each in reversed(replies) if each.open), None)
    if caller is not None:
        origin = getattr(getattr(current_reading(), "action", None), "origin", None)
        is_meant = getattr(origin, "agent", None) is agent
        return caller if is_meant or any(m is agent for m in members_of(caller.agent)) else None
    if handling is None or not handling.is_request or handling.agent is not agent:
        return None
    return next((each for each in reversed(handling.replies) if each.open), handling.parent)


def asker_data(agent: Agent) -> dict[str, str]:
    """Return who gets a reply that comes late: a run that asks, or who sent the `say`."""
    replies = [e for e in ENCLOSING_REPLIES.get()[-2:] if e.agent is not agent and e.open]
    asking: Any = replies[0] if replies else upward_of(agent, within=1)
    if asking is not None:
        in_journal = shares_journal(agent, asking.request)
        run = {"asked_for": asking.request.recorded.run_id} if in_journal else {}
        return {"asker": str(asking.agent.id)} | run
    handling = CURRENT.get()
    message = handling.message() if handling is not None and handling.agent is agent else None
    if handling is None or message is None or message["action"]["name"] != "say":
        return {}
    within = {} if handling.within is None else {"asked_within": handling.within}
    return {ASKED_BY: str(message["from"]), **within}


def approver_of_asker(agent: Agent) -> Approver | None:
    """Return the approver of who asks an agent, of who asks that one, and so on; None without."""
    own_replies = (each for each in reversed(ENCLOSING_REPLIES.get()) if each.agent is agent)
    replying: Replying | None = next(own_replies, None)
    asker = who_asks(agent, (), CURRENT.get()) if replying is None else replying.asker
    while asker is not None and (asking_agent := asker.agent) is not None:
        if (approver := asking_agent.own_approver()) is not None:
            return approver
        if isinstance(asker, Replying):
            asker = asker.asker
        else:
            asker = who_asks(asking_agent, (), asker)
    return None
