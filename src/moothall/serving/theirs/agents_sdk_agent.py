"""Agents of the OpenAI Agents SDK as agents of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moothall.build import TheirAgent

if TYPE_CHECKING:
    from moothall import Action
    from moothall.build import TheirRun


class AgentsSDKAgent(TheirAgent):
    """An agent of the OpenAI Agents SDK, as an agent of ours: `AgentsSDKAgent("clerk", agent)`.

    Its instructions, guardrails and output types stay, and so do those of all that it may hand over
    to; `deps=` of a reply are its `context`, `schema=` is its output type. The `approver=` is asked
    about a tool that needs approval. Tools of MCP servers are `outside`, unless `tools=` says
    otherwise. Its thread is ours: sessions and conversations at a server are not used.

    Args:
        id: its id
        theirs: an `agents.Agent`
        run_config: the `RunConfig` of its runs
        max_turns: how many turns a run may have, None for any number
        **options: those of `TheirAgent`

    Raises:
        ConfigError: an argument is not valid, or not possible for a program of others
    """

    run_kind = "AgentsSDKAgent"
    framework = "openai-agents"
    extra = ("openai-agents", "agents")
    their_class = "agents:Agent"

    def __init__(
        self,
        id: str | int,
        theirs: Any,
        *,
        run_config: Any = None,
        max_turns: int | None = 10,
        **options: Any,
    ) -> None:
        self.run_config: Any = run_config
        self.max_turns: int | None = max_turns
        super().__init__(id, theirs, **options)
        from moothall.serving.theirs.openai_agents import as_steps

        self._with_steps = as_steps(theirs)

    async def run_theirs(self, run: TheirRun) -> Any:
        """Run the program to its end."""
        from dataclasses import replace

        import agents

        from moothall.serving.theirs.openai_agents import StepModel, StepProvider, items_of

        schema, agent = run.request.answer, self._with_steps
        if schema is not None:
            agent = agent.clone(output_type=_output_of(schema))
        config = self.run_config or agents.RunConfig()
        config = replace(config, model_provider=StepProvider(config.model_provider))
        if isinstance(config.model, agents.Model):
            config = replace(config, model=StepModel(config.model))
        items = items_of([*run.history, {"role": "user", "content": run.content}])
        result = await agents.Runner.run(
            agent, items, context=run.deps, run_config=config, max_turns=self.max_turns
        )
        return result.final_output

    def known_tools(self) -> list[Action]:
        """Return the tools of functions of it and of the agents that it may hand over to."""
        import agents

        from moothall.serving.theirs.openai_agents import action_of

        tools: dict[str, Any] = {}
        for agent in self._reachable():
            tools |= {e.name: e for e in agent.tools if isinstance(e, agents.FunctionTool)}
        return [action_of(self, each, each.needs_approval) for each in tools.values()]

    def tools_are_known(self) -> bool:
        """Return whether neither it nor who it hands over to has tools of servers."""
        import agents

        reachable = self._reachable()
        handoffs = [handoff for agent in reachable for handoff in agent.handoffs]
        has_others = any(isinstance(each, agents.Handoff) for each in handoffs)
        return not has_others and not any(agent.mcp_servers for agent in reachable)

    def _reachable(self) -> list[Any]:
        import agents

        reachable = [self.theirs]
        for agent in reachable:
            next_agents = [e for e in agent.handoffs if isinstance(e, agents.Agent)]
            reachable += [e for e in next_agents if all(e is not other for other in reachable)]
        return reachable

    def model_name(self) -> str:
        """Return the name of its model, as prices know it."""
        from moothall.serving.theirs.openai_agents import name_of

        model = getattr(self.run_config, "model", None) or self.theirs.model
        return model if isinstance(model, str) else name_of(model) if model else self.framework

    def output_type(self) -> Any:
        """Return the type of its output."""
        return self.theirs.output_type


def _output_of(schema: Any) -> Any:
    """Return the output type by which a reply's schema is asked for."""
    import agents

    class WrittenOutput(agents.AgentOutputSchemaBase):
        def is_plain_text(self) -> bool:
            return False

        def name(self) -> str:
            return "answer"

        def json_schema(self) -> dict[str, Any]:
            return {**schema.json}

        def is_strict_json_schema(self) -> bool:
            return False

        def validate_json(self, json_str: str) -> Any:
            try:
                return schema.read(json_str)
            except ValueError as error:
                raise agents.ModelBehaviorError(str(error)) from error

    return WrittenOutput()
