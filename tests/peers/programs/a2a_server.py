"""`a2a-sdk` as a server: what is said in a context is in a file, which its restart finds again."""

import re

from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette

from serving import MODE, WHERE, serve


class Clerk(AgentExecutor):
    async def execute(self, context, event_queue):
        task = pb.Task(id=context.task_id, context_id=context.context_id)
        task.status.state = pb.TASK_STATE_SUBMITTED
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        file = WHERE / re.sub(r"\W", "-", context.context_id)
        with file.open("a") as said:
            said.write(f"{context.message.parts[0].text}\n")
        answer = " ".join(file.read_text().splitlines())
        await updater.add_artifact([pb.Part(text=answer)])
        await updater.complete()

    async def cancel(self, context, event_queue):
        raise NotImplementedError


card = ParseDict(
    {
        "name": "clerk",
        "description": "a clerk",
        "version": "1",
        "supportedInterfaces": [
            {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "capabilities": {"streaming": MODE == "stream"},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}],
    },
    pb.AgentCard(),
)
handler = DefaultRequestHandler(Clerk(), InMemoryTaskStore(), card)
serve(Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]))
