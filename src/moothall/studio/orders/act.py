"""The order of `moothall act`, and the agent that works on the files of a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moothall import ConfigError
from moothall.budget import RUN_LIMITS, RunLimits
from moothall.models import DEFAULT_WEIGHTS, ModelName, budget_of, made_model
from moothall.studio.orders.faults import about

if TYPE_CHECKING:
    from moothall import Action, Approver
    from moothall.journal import Journal

ITERATIONS: Final = 10
"""How many answers a model that is not small may give."""
_SYSTEM_PROMPT: Final = """\
You work for a person on the files of one folder, by calling the given actions. File names are
relative to the folder. Look at a file before you change it. To change an existing file, prefer
edit_file to write_file. The person must permit some calls: if a call is refused, do not repeat it.
When the task is done, say in a few words what you did or found."""
_REVIEWER_PROMPT: Final = """\
You review the work of another agent on the files of one folder, for a person. Accept the work only
if the calls that the agent really made show that the task is done."""


@dataclass(frozen=True)
class ActOrder(RunLimits):
    """The settings of `moothall act` from the command line, the environment and moothall.toml."""

    command: ClassVar[str] = "act"
    part: ClassVar[str] = "act"  # of a run: what records the order
    # What may be another when the run is resumed.
    may_change: ClassVar[tuple[str, ...]] = ("max_iterations", *RUN_LIMITS, "yes_read")
    paths: ClassVar[tuple[str, ...]] = ("root",)
    # Options that may have an address with a key in it.
    addresses: ClassVar[tuple[str, ...]] = ("model", "review")

    task: str
    root: str = "."
    model: str = "local"
    model_of_file: bool = False  # whether moothall.toml chose it, which decides whose key it gets
    review: str | None = None  # who has to accept the work: a model's name, `me`, or None
    max_iterations: int | None = None
    yes_read: bool = True  # whether files may be looked at without asking
    network: bool = False  # whether commands in the sandbox have the network

    @property
    def in_words(self) -> str:
        """The settings, in a line."""
        review = f", reviewed by {self.review}" if self.review else ""
        network = ", commands have the network" if self.network else ""
        return f"{self.model} in {self.root}{review}{network}"


def act_agent(
    order: ActOrder,
    *,
    key: str | None = None,
    own_key: str | None = None,
    approver: Approver,
    reviewer: Any = None,
    journal: Journal | None = None,
    actions: list[Action] | None = None,
) -> Any:
    """Return the agent that an order asks for: a ReActAgent, or a DualActAgent if it is reviewed.

    `own_key` is the person's own, for the reviewer's model, which `reviewer`, a Person, replaces.
    """
    from moothall import ReActAgent

    is_small = is_small_model(order.model)
    with about("model"):
        models = [made_model(order.model, key)]
    agent: Any = ReActAgent(
        "files",
        models[0],
        actions=actions_of(order) if actions is None else actions,
        system_prompt=None if is_small else _SYSTEM_PROMPT,
        max_iterations=order.max_iterations or (1 if is_small else ITERATIONS),
        approver=approver,
    )
    if order.review is not None:
        from moothall import DualActAgent, DualActConfig

        if reviewer is None and order.review == "me":
            raise ConfigError("the order has a person review: give reviewer=, such as a Person")
        human = reviewer
        if human is None:
            with about("review"):
                models.append(made_model(order.review, own_key))
            human = ReActAgent("reviewer", models[1], system_prompt=_REVIEWER_PROMPT)
        agent = DualActAgent(DualActConfig(human=human, reactive=agent, first="reactive"), "act")
    agent.journal = journal
    budget = budget_of(order.command, *models, **order.limits())
    if budget is not None:
        agent.budget = budget
    return agent


def actions_of(order: ActOrder) -> list[Action]:
    """Return the actions of an order's agent; their access policy says when to ask its approver."""
    from moothall import ACCESS_PERMITTED, ACCESS_REQUESTED
    from moothall.agents import changing_actions, file_actions

    is_small = is_small_model(order.model)
    with about("root"):
        reading_actions = file_actions(
            order.root,
            is_small,
            only_listed=is_small,
            subfolders=not is_small,
            access_policy=ACCESS_PERMITTED if order.yes_read else ACCESS_REQUESTED,
        )
    return [*reading_actions, *changing_actions(order.root, is_small, network=order.network)]


def is_small_model(model: str) -> bool:
    """Return whether a model does one thing, on an existing file, without judging the outcome."""
    return model.partition("?")[0] in ("local", f"local:{DEFAULT_WEIGHTS.name}")


def model_keys(order: ActOrder, file_settings: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the key for the model of an order, and the key for its reviewer."""
    # A key of moothall.toml is only for a model that the file chose; such a model gets no other.
    own_key = os.environ.get("MOOTHALL_KEY")
    if not order.model_of_file:
        return own_key, own_key
    return (
        file_settings.get("key") if file_settings.get("model") == order.model else None
    ), own_key


def check_reviewer(order: ActOrder) -> None:
    """Check that a model can have the name of an order's reviewer; ConfigError if none can."""
    if order.review is not None and order.review != "me":
        with about("review"):
            ModelName(order.review).check_spelling()


def check_journal_apart(order: ActOrder, path: str | None) -> None:
    """Check that a journal is out of reach of the agent in the folder; ConfigError if it is not."""
    from moothall.journal import Journal

    if path is None or Journal.is_url(path):
        return
    # A permitted command can write only below the folder. If it could write the journal, it could
    # change what was permitted, and the folder in which the run is resumed.
    root, journal = Path(order.root).resolve(), Path(path).resolve()
    if journal.is_relative_to(root):
        raise ConfigError(
            f"the journal {path!r} is in the folder that the agent works on, which could change it "
            f"there: name one elsewhere, such as {str(Path.home() / 'runs.db')!r}",
            argument="root",
        )
