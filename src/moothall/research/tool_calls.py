"""Calls of tools: gather the resources of a call, and turn its return value into a result."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from moothall import (
    Action,
    ActionRegistry,
    ConfigError,
    DefinitionError,
    InvalidArguments,
    PageError,
)
from moothall.build import (
    NotJSON,
    ToolCall,
    as_json,
    call_user,
    copy_json,
    dump_state,
    json_text,
    load_state,
)
from moothall.research.findings import ResearchResult, ResearchTask, Resource
from moothall.research.resource_pool import ResourcePool
from moothall.research.scope import Scope


class Tools:
    """What a researcher may call, within its scope; a server's actions are as it has them now."""

    def __init__(self, tools: Any, searchers: Any, scope_options: Any, id: str | int) -> None:
        self._registries = registry_of(tools, id), registry_of(searchers, id)
        sites, exclude, since = scope_options
        self._scope = Scope(sites, exclude, since, f"agent {id!r}: ")
        self.sources: list[Any] = [
            each for registry in self._registries for each in registry.sources
        ]
        self._initial_tools = self._tools_in_scope()

    def by_name(self) -> dict[str, Action]:
        """Return the tools by name."""
        return self._tools_in_scope() if self.sources else self._initial_tools

    def _tools_in_scope(self) -> dict[str, Action]:
        by_name = {
            each.name: each for registry in self._registries for each in registry.get_actions()
        }
        scope = self._scope
        return (
            {name: within_scope(tool, scope) for name, tool in by_name.items()}
            if scope
            else by_name
        )


def registry_of(tools: Any, id: str | int) -> ActionRegistry:
    """Return the tools that a researcher was given."""
    registry = ActionRegistry()
    if isinstance(tools, ActionRegistry):
        registry = tools
    elif isinstance(tools, str) or not isinstance(tools, Iterable):
        raise ConfigError(f"agent {id!r}: tools= must be a list of actions, got {tools!r:.80}")
    else:
        for each in tools:
            if isinstance(each, str | os.PathLike):
                folder = f"search_folder({os.fspath(each)!r:.80})"
                raise ConfigError(f"agent {id!r}: tools= must be actions: for a folder, {folder}")
            registry.register(each)
    for each in registry.get_actions():
        each.check_described(id)
    return registry


def check_tools(tools: dict[str, Action], id: str | int, *, extractive: bool) -> None:
    """Raise DefinitionError if Plan can do nothing with these tools."""
    if not tools:
        raise DefinitionError(
            f"agent {id!r} has no tools to research with: give it tools=[…], such as "
            "search_folder(PATH)"
        )
    if extractive and not any(one_text_tools(tools, "query")):
        raise DefinitionError(
            f"agent {id!r} has no model, so one of its tools must require exactly one text, a "
            f"query; got {', '.join(map(repr, tools))}"
        )


def one_text_tools(tools: dict[str, Action], parameter: str) -> Iterator[tuple[str, str]]:
    """Yield the tools that need only one text, a `query` or a `url`, with its parameter's name."""
    for name, tool in tools.items():
        properties = tool.parameters.get("properties", {})
        required = tool.parameters.get("required", list(properties))
        is_text = len(required) == 1 and properties.get(required[0], {}).get("type") == "string"
        is_url = is_text and any(each in required[0].lower() for each in ("url", "uri"))
        kind = "url" if is_url else "query"
        if is_text and kind == parameter and not tool.origin.takes_listed_values:
            yield name, required[0]


def call_of(
    task: ResearchTask, number: int, tools: dict[str, Action], pool: ResourcePool
) -> ToolCall:
    """Return a task as a call of its tool; an impossible call has a `fault`."""
    call = ToolCall(f"task_{number}", task.tool, task.tool)
    tool = tools.get(task.tool)
    if tool is None:
        call.fault = f"there is no tool {task.tool!r}; there are {', '.join(tools) or 'none'}"
        return call
    call.action = _gathering_action(tool, task, ResourcePool(beyond=pool))
    try:
        call.args = copy_json(task.args)
        call.kwargs = tool.check(call.args)
    except (NotJSON, InvalidArguments) as error:
        call.fault = str(error)
    return call


def result_of(task: ResearchTask, outcome: dict[str, Any] | None) -> ResearchResult:
    """Return the result of a task from the recorded outcome of its call."""
    task_result = ResearchResult(task.tool, task.args, task.reasoning, objective=task.objective)
    error, value = (outcome or {}).get("error"), (outcome or {}).get("result")
    # A refusal is not raised: whoever refused is not asked again.
    task_result.has_raised = "Traceback (" in (outcome or {}).get("traceback", "")
    if error is not None or not isinstance(value, dict):
        task_result.error = "it gave no result" if error is None else str(error)
        return task_result
    task_result.result = value.get("value")
    task_result.resources = [
        load_state(Resource, each, "a resource") for each in value.get("resources", ())
    ]
    task_result.missing = [str(each) for each in value.get("missing", ())]
    read_resource = next((each for each in task_result.resources if each.visited), None)
    task_result.citation = None if read_resource is None else read_resource.url
    return task_result


def with_resources(result: ResearchResult) -> ResearchResult:
    """Fill in the resources of a result from the user's own Research step."""
    if not result.resources and result.error is None:
        resources = _gathered_result(result.result, result, ResourcePool())["resources"]
        result.resources = [load_state(Resource, each, "a resource") for each in resources]
    return result


def within_scope(tool: Action, scope: Scope) -> Action:
    """Return a copy of a tool that reads no URL outside a scope, and finds none."""

    def check_args(args: dict[str, Any]) -> dict[str, Any]:
        for each in args.values():
            if isinstance(each, str) and (refusal := scope.refusal(each.strip())):
                raise PageError(refusal)
        return args

    def filter_result(result: Any, args: dict[str, Any]) -> Any:
        for each in args.values():
            if isinstance(each, ResourcePool):
                each.keep(scope.includes)
        if isinstance(result, list | tuple):
            return [
                each for each in result if not isinstance(each, Resource) or scope.includes(each)
            ]
        if isinstance(result, Resource) and not scope.includes(result):
            publication = result.publication
            raise PageError(scope.refusal(result.url) or scope.age_fault(result.url, publication))
        return result

    return _changed_action(tool, filter_result, check_args)


def _changed_action(
    tool: Action,
    change_result: Callable[[Any, dict[str, Any]], Any],
    change_args: Callable[[dict[str, Any]], dict[str, Any]] = lambda args: args,
) -> Action:
    """Return a copy of an action: `change_args` maps its arguments, `change_result` its result."""

    async def change_later(result: Awaitable[Any], args: dict[str, Any]) -> Any:
        return change_result(await call_user(lambda: result, in_thread=None), args)

    def call(**kwargs: Any) -> Any:
        args = change_args(kwargs)
        result = tool.execute(**args)
        if inspect.isawaitable(result):
            return change_later(result, args)
        return change_result(result, args)

    async def acall(**kwargs: Any) -> Any:
        args = change_args(kwargs)
        return await change_later(tool.execute(**args), args)

    function = functools.wraps(tool.function)(acall if tool.is_async else call)
    return tool.changed(function, retries=None)  # it has them where it is executed


def _gathering_action(tool: Action, task: ResearchTask, pool: ResourcePool) -> Action:
    """Return a copy of an action whose result holds the resources that it found and read."""
    injected = tool.injected.items()
    pools = {name: pool for name, kind in injected if issubclass(kind, ResourcePool)}
    return _changed_action(
        tool, lambda result, _: _gathered_result(result, task, pool), lambda args: {**args, **pools}
    )


def _gathered_result(result: Any, task: ResearchTask, pool: ResourcePool) -> dict[str, Any]:
    items = list(result) if isinstance(result, list | tuple) else [result]
    resources = [each for each in items if isinstance(each, Resource)]
    for each in resources:
        pool.add(each)
    changes = pool.changes()
    if resources:
        value: Any = [[each.url, each.description] for each in resources]
    else:
        value = as_json(result)
        content = value["result"] if isinstance(value, dict) and [*value] == ["result"] else value
        text = "" if content in (None, "", [], {}) else json_text(content)
        if text.strip() and not any(each.visited for each in changes):
            args = {name: json_text(as_json(value)) for name, value in task.args.items()}
            url = f"action:{task.tool}{'?' * bool(args)}{urlencode(args)}"
            title = f"{task.tool}({', '.join(map('='.join, args.items()))})"
            cited_url = getattr(task, "citation", None) or url
            changes = [*changes, Resource(cited_url, title, True, text)]
    for each in changes:
        if each.visited and each.fetched_at is None:
            each.fetched_at = datetime.now(UTC).isoformat(timespec="seconds")
    data = {"value": value, "resources": [dump_state(each) for each in changes]}
    return data | ({"missing": pool.missing} if pool.missing else {})
