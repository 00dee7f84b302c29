"""Agents of Pydantic AI as agents of ours."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Union

from moothall.build import TheirAgent, as_json, json_text

if TYPE_CHECKING:
    from moothall import Action
    from moothall.build import TheirRun


class PydanticAIAgent(TheirAgent):
    """An agent of Pydantic AI, as an agent of ours: `PydanticAIAgent("clerk", agent)`.

    Its instructions, validators and output types stay; `deps=` of a reply are its `deps`, `schema=`
    is its output type. The `approver=` is asked about a tool that requires approval. A tool that
    raises `CallDeferred` waits in the journal for its result. Tools of MCP servers are `outside`,
    unless `tools=` says otherwise. Arguments and errors are those of `TheirAgent`; `theirs` is a
    `pydantic_ai.Agent`.
    """

    run_kind = "PydanticAIAgent"
    framework = "pydantic-ai-slim"
    extra = ("pydantic-ai", "pydantic_ai")
    their_class = "pydantic_ai.agent:AbstractAgent"

    async def run_theirs(self, run: TheirRun) -> Any:
        """Run the program to its end."""
        from moothall.serving.theirs.pydantic_ai import AsSteps, content_for, history_of

        schema, options = run.request.answer, dict[str, Any]()
        if schema is not None:
            from pydantic_ai import StructuredDict

            options["output_type"] = StructuredDict(schema.json, name="final_result")
        capabilities: list[Any] = [] if self._has_steps else [AsSteps()]
        if run.history:  # else a thread has its system prompt the first time only
            from pydantic_ai.capabilities import ReinjectSystemPrompt

            capabilities.append(ReinjectSystemPrompt())
        history = history_of(run.history)
        result = await self.theirs.run(
            content_for(run.content),
            message_history=history or None,
            deps=run.deps,
            capabilities=capabilities,
            **options,
        )
        return result.output

    @cached_property
    def _has_steps(self) -> bool:
        """Whether its agent has `AsSteps` of its own: what a run adds is composed in each run."""
        from moothall.serving.theirs.pydantic_ai import AsSteps

        parts: list[Any] = []
        self.theirs.root_capability.apply(parts.append)
        return any(isinstance(each, AsSteps) for each in parts)

    def known_tools(self) -> list[Action]:
        """Return the tools of functions; others are known once they are called."""
        from pydantic_ai.toolsets import FunctionToolset

        from moothall.serving.theirs.pydantic_ai import action_of

        toolsets = [each for each in self.theirs.toolsets if isinstance(each, FunctionToolset)]
        tools = [tool for toolset in toolsets for tool in toolset.tools.values()]
        return [action_of(self, each.tool_def, None, each.requires_approval) for each in tools]

    def tools_are_known(self) -> bool:
        """Return whether it has no toolsets but of functions."""
        from pydantic_ai.toolsets import FunctionToolset

        return all(isinstance(each, FunctionToolset) for each in self.theirs.toolsets)

    def model_name(self) -> str:
        """Return the name of its model, as prices know it."""
        from pydantic_ai.models import Model

        from moothall.serving.theirs.pydantic_ai import name_of

        model = self.theirs.model
        return name_of(model) if isinstance(model, Model) else str(model or self.framework)

    def write_value(self, value: Any) -> Any:
        """Return what a tool returned as JSON data."""
        from pydantic_ai.messages import ToolReturn

        return as_json(value.return_value if isinstance(value, ToolReturn) else value)

    def output_type(self) -> Any:
        """Return the type of its output; of several, their union."""
        kind = self.theirs.output_type
        is_several = isinstance(kind, list) and all(isinstance(each, type) for each in kind)
        return Union[tuple(kind)] if is_several else kind  # noqa: UP007

    def write_error(self, error: BaseException) -> Any:
        """Return what a tool or a model raised as JSON data."""
        from pydantic_ai import exceptions

        if isinstance(error, exceptions.ToolRetryError):
            return {"type": "ModelRetry", "text": json_text(as_json(error.tool_retry.content))}
        data: dict[str, Any] = {"type": type(error).__name__, "text": str(error)}
        if isinstance(error, exceptions.ModelHTTPError):
            data |= {"status": error.status_code, "body": as_json(error.body)}
        if isinstance(error, exceptions.ModelAPIError):
            data |= {"model": error.model_name, "text": error.message}
        return data

    def read_error(self, data: Any) -> Any:
        """Return what the program gets of such data."""
        from pydantic_ai import exceptions

        if "status" in data:
            return exceptions.ModelHTTPError(data["status"], data["model"], data["body"])
        if "model" in data:
            return exceptions.ModelAPIError(data["model"], data["text"])
        if data["type"] == "ApprovalRequired":
            return exceptions.ApprovalRequired()
        if data["type"] in ("ModelRetry", "ToolFailed", "UnexpectedModelBehavior"):
            kind: type[Exception] = getattr(exceptions, data["type"])
            return kind(data["text"])
        return super().read_error(data)
