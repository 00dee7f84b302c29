"""The agent that works on the files of a folder, as an order asks for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from civitas.errors import ConfigError
from civitas.models import weights
from civitas.orders.models import budget_of, made_model

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.approval import Approver
    from civitas.journal import Journal
    from civitas.orders.order import Order

ITERATIONS: Final = 10
"""How many answers a model may give that is not small."""
_WHO: Final = """\
You work on the files of one folder for a person, by the actions that you are given. The names of
files are relative to the folder. Look before you change anything; prefer edit_file to write_file
for a file that is there. Some actions are permitted by the person one by one: if one is refused, do
not try it again. When the task is done, answer in a few words what you did or found."""
_REVIEWER: Final = """\
You review what another agent does on the files of one folder for a person. Accept it only if what
it really called shows that the task is done."""


def act_agent(
    order: Order,
    *,
    key: str | None = None,
    own_key: str | None = None,
    approver: Approver,
    reviewer: Any = None,
    journal: Journal | None = None,
    actions: list[Action] | None = None,
) -> Any:
    """The agent that an order asks for: a ReActAgent, or a DualActAgent where it is reviewed.

    Args:
        key: the key of the agent's model, if it takes one
        own_key: the key of the reviewer's model, which is the person's own
        approver: who permits the actions that ask
        reviewer: the conversational agent that reviews, such as a Person; if left out, one by the
            model that `order.review` names
        journal: where it records its replies, or None
        actions: those of `actions_of`, if they are there already

    Raises:
        ConfigError: there is no model of such a name, or nobody is given who is to review
        FileError: the folder is not there, or cannot be used
        ModelError: the model is missing or cannot be used
    """
    from civitas.reasoning.loop.react import ReActAgent

    small = is_small(order.model)
    agent: Any = ReActAgent(
        "files",
        made_model(order.model, key),
        actions=actions_of(order) if actions is None else actions,
        system_prompt=None if small else _WHO,
        max_iterations=order.max_iterations or (1 if small else ITERATIONS),
        approver=approver,
    )
    if order.review is not None:
        from civitas.reasoning.dualact.agent import DualActAgent
        from civitas.reasoning.dualact.config import DualActConfig

        if reviewer is None and order.review == "me":
            raise ConfigError("the order has a person review: give reviewer=, such as a Person")
        human = reviewer or ReActAgent(
            "reviewer", made_model(order.review, own_key), system_prompt=_REVIEWER
        )
        agent = DualActAgent(DualActConfig(human=human, reactive=agent, first="reactive"), "act")
    agent.journal = journal
    budget = budget_of(order.command, seconds=order.max_seconds, tokens=order.max_tokens)
    if budget is not None:
        agent.budget = budget
    return agent


def actions_of(order: Order) -> list[Action]:
    """The actions that the agent of an order has; its approver is asked by their access policy."""
    from civitas.action import ACCESS_PERMITTED, ACCESS_REQUESTED
    from civitas.agents.files import changing_actions, file_actions

    small = is_small(order.model)
    looking = file_actions(
        order.root,
        small,
        only_listed=small,
        subfolders=not small,
        access_policy=ACCESS_PERMITTED if order.yes_read else ACCESS_REQUESTED,
    )
    return [*looking, *changing_actions(order.root, small, network=order.network)]


def is_small(model: str) -> bool:
    """Whether a model does one thing, and does not judge what came of it.

    It is given the names of the files that there are, as the only ones that it may write.
    """
    return model in ("local", f"local:{weights.DEFAULT.name}")


def keys(order: Order, said: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The key for the model of an order, and that for its reviewer.

    As when it was ordered: a key of civitas.toml is for a model that the file chose, and is the
    only one that such a model gets.
    """
    own = os.environ.get("CIVITAS_KEY")
    if not order.model_of_file:
        return own, own
    return (said.get("key") if said.get("model") == order.model else None), own


def apart(order: Order, path: str) -> None:
    """See to it that a journal is out of the reach of what works in the folder.

    A command that was permitted may write below the folder, and nowhere else: but whoever writes a
    journal says what was permitted, and in which folder the run goes on.

    Raises:
        ConfigError: the journal is in the folder
    """
    root, journal = Path(order.root).resolve(), Path(path).resolve()
    if journal.is_relative_to(root):
        raise ConfigError(
            f"the journal {path!r} is in the folder that the agent works on, which could change it "
            f"there: name one elsewhere, such as {str(Path.home() / 'runs.db')!r}"
        )
