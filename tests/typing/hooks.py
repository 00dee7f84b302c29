"""Hooks: docs/agents.md."""

from typing import Any

from moothall import Agent, ReActAgent


def log(agent: Agent, kwargs: dict[str, Any]) -> None:
    print(agent.id, kwargs["thread"])


async def shorter(agent: ReActAgent, kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"text": kwargs["text"][:100]}


def wrong(agent: Agent) -> None:
    print(agent.id)


def watch(agent: ReActAgent) -> None:
    agent.register_hook("pre_reply", "log", log)
    agent.register_hook("pre_reply", "shorter", shorter)
    agent.register_hook("post_acting", "log", lambda agent, kwargs: print(kwargs["action"]))
    agent.register_hook("pre_nosuch", "log", log)  # error
    agent.register_hook("pre_reply", "wrong", wrong)  # error
    agent.remove_hook("pre_reply", "log")
    agent.remove_hook("pre_relpy", "log")  # error
    agent.clear_hooks("post_acting")
    agent.clear_hooks()
