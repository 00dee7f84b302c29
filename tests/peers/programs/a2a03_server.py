"""`a2a-sdk` 0.3 as a server: what is said in a context is in a file, which its restart finds again.

To some texts it does what they say: `ask`, `fail`, `number`, `file`, `message`, `wait`, and `said`.
"""

import asyncio
import base64
import json
import re

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    DataPart,
    FilePart,
    FileWithBytes,
    Part,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task

from serving import MODE, WHERE, serve

PNG = base64.b64encode(b"\x89PNG").decode()


def text(words):
    return Part(root=TextPart(text=words))


class Clerk(AgentExecutor):
    async def execute(self, context, event_queue):
        parts = [part.root.model_dump(exclude_none=True) for part in context.message.parts]
        said = str(parts[-1].get("text"))
        if said == "message":
            await event_queue.enqueue_event(new_agent_text_message("no task"))
            return
        if (task := context.current_task) is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if said == "ask":
            asked = updater.new_agent_message([text("Which colour?")])
            await updater.requires_input(asked, final=True)
            return
        if said == "fail":
            await updater.failed(updater.new_agent_message([text("no paper")]))
            return
        if said == "wait":
            WHERE.joinpath("waits").touch()
            await asyncio.Event().wait()
        file = WHERE / re.sub(r"\W", "-", task.context_id)
        with file.open("a") as all_said:
            all_said.write(f"{said}\n")
        if said == "number":
            await updater.add_artifact([Part(root=DataPart(data={"n": 3}))])
        elif said == "file":
            image = FileWithBytes(bytes=PNG, mime_type="image/png", name="dot.png")
            await updater.add_artifact([text("a dot"), Part(root=FilePart(file=image))])
        elif said == "said":
            await updater.add_artifact([text(json.dumps(parts))])
        else:
            pieces = re.split(r"(?<=\n)", file.read_text().removesuffix("\n"))
            for n, piece in enumerate(pieces):
                part = [text(piece.replace("\n", " "))]
                last = n == len(pieces) - 1
                await updater.add_artifact(part, "a", append=n > 0, last_chunk=last)
        await updater.complete()

    async def cancel(self, context, event_queue):
        WHERE.joinpath("cancelled").touch()
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


card = AgentCard(
    name="clerk",
    description="a clerk",
    version="1",
    url="/rpc",
    capabilities=AgentCapabilities(streaming=MODE == "stream"),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="s", name="s", description="s", tags=["s"])],
)
handler = DefaultRequestHandler(Clerk(), InMemoryTaskStore())
serve(A2AStarletteApplication(card, handler).build(rpc_url="/rpc"))
