"""`a2a-sdk` 0.3: a task in each turn of one context; earlier ones are looked up again."""

import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TaskQueryParams, TaskState, TextPart
from play import URL, play

http = httpx.AsyncClient(timeout=60)


def begin(way, streamed):
    known, tasks = {}, {}

    async def turn(question):
        if not known:
            card = await A2ACardResolver(http, f"{URL}/a2a/clerk").get_agent_card()
            config = ClientConfig(httpx_client=http, streaming=streamed)
            known["client"] = ClientFactory(config).create(card)
        client = known["client"]
        message = Message(
            message_id=uuid.uuid4().hex,
            role=Role.user,
            parts=[Part(root=TextPart(text=question))],
            context_id=known.get("context"),
        )
        async for task, _ in client.send_message(message):
            known["context"], latest = task.context_id, task.id
        tasks[latest] = question
        for id, asked in tasks.items():
            task = await client.get_task(TaskQueryParams(id=id))
            assert task.context_id == known["context"]
            assert task.status.state == TaskState.completed
            assert [part.root.text for part in task.history[0].parts] == [asked]
        return "".join(part.root.text for part in task.artifacts[-1].parts)

    return turn


play(begin)
