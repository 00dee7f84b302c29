"""How the two of a dual act work together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from civitas.arguments import names_checked
from civitas.errors import ConfigError
from civitas.reasoning.dualact.briefing import Briefing
from civitas.reasoning.dualact.review import ReviewRule, every, review_rule

MAX_HR_LOOPS: Final = 5
"""How often R may run for one reply."""


@names_checked
@dataclass(slots=True)
class DualActConfig:
    """The two of a dual act, and how they work together.

    Attributes:
        human: H, who decides: any conversational agent
        reactive: R, which executes: any conversational agent, or several that work side by side
        max_hr_loops: how often R may run
        human_decision_prompt: what H is told of a conclusion, with the places `{original_task}`,
            `{summary}`, `{steps}`, `{evidence}`, `{confidence}`
        reactive_task_prompt: what R is told, with the places `{instruction}`, `{focus_area}`,
            `{original_task}`
        conclusion_format_prompt: what R is told of how to conclude, with the places `{instruction}`
            and `{original_task}`; an empty text for nothing. If left out, an R whose model keeps to
            a schema is told of the parts of a conclusion.
        shared_memory: whether H and R have one memory, R's
        first: `human`: H is given the task first; `reactive`: R is
        review: which conclusions H is given: `every`, or those that a rule catches; the others are
            accepted

    Raises:
        ConfigError: one is not what it may be
    """

    human: Any
    reactive: Any
    max_hr_loops: int = MAX_HR_LOOPS
    human_decision_prompt: str | None = None
    reactive_task_prompt: str | None = None
    conclusion_format_prompt: str | None = None
    shared_memory: bool = False
    first: str = "human"
    review: str | ReviewRule = field(default=every)

    def __post_init__(self) -> None:
        _check_agent(self.human, "human")
        if not self.reactives:
            raise ConfigError("reactive= is an empty list: there is nobody to execute anything")
        for agent in self.reactives:
            _check_agent(agent, "reactive")
        if any(agent is self.human for agent in self.reactives):
            raise ConfigError(
                f"human= and reactive= are the same agent, {self.human!r:.80}: make two, which may "
                "have one model"
            )
        names = [str(getattr(agent, "id", "")) for agent in self.reactives]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(
                f"reactive= has two agents of the id {twice[0]!r}, by which is known who concludes "
                "what"
            )
        if type(self.max_hr_loops) is not int or self.max_hr_loops < 1:
            raise ConfigError(f"max_hr_loops= must be 1 or more, got {self.max_hr_loops!r:.80}")
        if self.first not in ("human", "reactive"):
            raise ConfigError(f'first= must be "human" or "reactive", got {self.first!r:.80}')
        self.briefing()
        self.review = review_rule(self.review)
        if self.shared_memory:
            for agent in (self.human, *self.reactives):
                if not hasattr(type(agent), "memory"):
                    raise ConfigError(
                        f"shared_memory= needs agents with a memory, such as ReActAgent, and "
                        f"{agent!r:.80} has none"
                    )

    @property
    def reactives(self) -> list[Any]:
        """R, as a list."""
        return list(self.reactive) if isinstance(self.reactive, list | tuple) else [self.reactive]

    def briefing(self) -> Briefing:
        """The prompts of the two.

        Raises:
            ConfigError: one of them is no text, or has a place that is not known
        """
        return Briefing(
            self.human_decision_prompt, self.reactive_task_prompt, self.conclusion_format_prompt
        )


def as_config(config: DualActConfig | None, parts: dict[str, Any]) -> DualActConfig:
    """The configuration of a dual act that was given one, or the parts of one."""
    parts = {name: part for name, part in parts.items() if part is not None}
    if config is None:
        missing = " and ".join(f"{name}=" for name in ("human", "reactive") if name not in parts)
        if missing:
            raise ConfigError(f"DualActAgent needs {missing}, or a DualActConfig of both")
        return DualActConfig(**parts)
    if not isinstance(config, DualActConfig):
        raise ConfigError(
            f"DualActAgent takes a DualActConfig, or human= and reactive=, got {config!r:.80}"
        )
    if parts:
        raise ConfigError(f"DualActAgent has a config, which says {', '.join(parts)}: leave it out")
    return config


def _check_agent(agent: Any, what: str) -> None:
    if isinstance(agent, type) or not callable(getattr(agent, "reply", None)):
        raise ConfigError(
            f"{what}= needs an agent that replies, such as ReActAgent, got {agent!r:.80}"
        )
