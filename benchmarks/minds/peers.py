"""Other libraries on the same tasks, over llama.cpp's server with the same weights.

    python -m benchmarks.minds.peers [--peer NAME]… [--category NAME]… [--count N] [--shut]
        [--keep FILE] [--threads N]

The server is that of `xllamacpp`, with the template of the weights, at a temperature of 0. Each
library is used as its pages show it: Pydantic AI's `Agent`, LangChain's `create_agent` (LangGraph)
and smolagents' `CodeAgent`. All calls count that an agent makes within three requests. A function
returns "done". Needs `pydantic-ai-slim[openai]`, `langchain` with `langchain-openai`, and
`smolagents[openai]`.
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.minds import bfcl
from benchmarks.minds.mind import NAME, Outcomes, share, weights

REQUESTS = 3
_MOST_TOKENS = 400


def serve(threads: int | None) -> tuple[Any, str, str]:
    """A server on loopback, with its address and key; it lives as long as the first."""
    import xllamacpp

    params, key = xllamacpp.CommonParams(), secrets.token_urlsafe(16)
    params.model.path, params.hostnames, params.port = str(weights()), ["127.0.0.1"], 0
    params.n_parallel, params.n_ctx, params.api_keys, params.use_jinja = 1, 8192, [key], True
    params.verbosity, params.warmup = -1, False
    if threads is not None:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    return server, f"{server.listening_address}/v1", key


Functions = list[tuple[str, str, dict[str, Any], Callable[..., str]]]


def pydantic_ai(url: str, key: str, text: str, functions: Functions) -> None:
    """Answer a task with Pydantic AI."""
    from pydantic_ai import Agent, Tool
    from pydantic_ai.exceptions import UsageLimitExceeded
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    model = OpenAIChatModel(NAME, provider=OpenAIProvider(base_url=url, api_key=key))
    tools = [
        Tool.from_schema(function, name=name, description=about, json_schema=schema)
        for name, about, schema, function in functions
    ]
    settings: Any = {"temperature": 0.0, "max_tokens": _MOST_TOKENS}
    try:
        Agent(model, tools=tools, model_settings=settings).run_sync(
            text, usage_limits=UsageLimits(request_limit=REQUESTS)
        )
    except UsageLimitExceeded:
        pass  # the calls until then count


def langgraph(url: str, key: str, text: str, functions: Functions) -> None:
    """Answer a task with LangGraph."""
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI
    from langgraph.errors import GraphRecursionError

    model: Any = ChatOpenAI(
        model=NAME, base_url=url, api_key=key, temperature=0, max_tokens=_MOST_TOKENS
    )
    tools = [
        StructuredTool.from_function(function, None, name, about, args_schema=schema)
        for name, about, schema, function in functions
    ]
    try:
        create_agent(model, tools).invoke(
            {"messages": [{"role": "user", "content": text}]}, {"recursion_limit": 2 * REQUESTS}
        )
    except GraphRecursionError:
        pass


def smolagents(url: str, key: str, text: str, functions: Functions) -> None:
    """Answer a task with smolagents, whose agent writes code."""
    from smolagents import CodeAgent, OpenAIServerModel, Tool

    kinds = {"string", "boolean", "integer", "number", "array", "object"}

    def tool(name: str, about: str, schema: dict[str, Any], function: Any) -> Any:
        needed = schema.get("required") or ()
        inputs = {
            each: {
                "type": said.get("type") if said.get("type") in kinds else "any",
                "description": said.get("description") or each,
                **({} if each in needed else {"nullable": True}),
            }
            for each, said in (schema.get("properties") or {}).items()
        }
        fields: dict[str, Any] = {
            "name": name,
            "description": about,
            "inputs": inputs,
            "output_type": "string",
        }
        fields |= {"forward": lambda self, *args, **given: function(*args, **given)}
        made = type("Made", (Tool,), {**fields, "skip_forward_signature_validation": True})
        return made()

    model = OpenAIServerModel(
        NAME, api_base=url, api_key=key, temperature=0, max_tokens=_MOST_TOKENS
    )
    CodeAgent(
        [tool(*each) for each in functions], model, max_steps=REQUESTS, verbosity_level=0
    ).run(text)


PEERS = {"pydantic_ai": pydantic_ai, "langgraph": langgraph, "smolagents": smolagents}


def one(peer: str, url: str, key: str, task: dict[str, Any], wanted: list[Any]) -> dict[str, Any]:
    """What a library makes of a task."""
    made: list[Any] = []

    def function(described: dict[str, Any], name: str) -> Callable[..., str]:
        names = [*described["parameters"].get("properties", {})]

        def done(*args: Any, **given: Any) -> str:
            called = {**dict(zip(names, args, strict=False)), **given}
            made.append((described["name"], {k: v for k, v in called.items() if v is not None}))
            return "done"

        done.__name__ = name
        return done

    functions = []
    for each in task["function"]:
        name = each["name"].replace(".", "_")
        schema = bfcl.schema(each["parameters"])
        functions.append((name, each["description"], schema, function(each, name)))
    text = "\n".join(each["content"] for each in task["question"][0])
    fault = ""
    try:
        PEERS[peer](url, key, text, functions)
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"[:300]
    return {"right": bfcl.right(made, wanted), "made": made, "fault": fault}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minds.peers", description=__doc__)
    parser.add_argument("--peer", action="append", choices=PEERS)
    parser.add_argument("--category", action="append", choices=bfcl.CATEGORIES)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--shut", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    server, url, key = serve(options.threads)
    outcomes = Outcomes(options.keep)
    for peer in options.peer or PEERS:
        for category in options.category or bfcl.CATEGORIES:
            rows = [
                outcomes.of(
                    f"{peer}.{category}",
                    task["id"],
                    lambda p=peer, t=task, w=wanted: one(p, url, key, t, w),
                )
                for task, wanted in bfcl.tasks(category, options.count, options.shut)
            ]
            share(peer, category, rows)
    del server


if __name__ == "__main__":
    main()
