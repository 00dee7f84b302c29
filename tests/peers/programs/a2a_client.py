"""`a2a-sdk`: a task in each turn of one context; earlier ones are looked up again."""

import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from play import URL, play

http = httpx.AsyncClient(timeout=60)


def begin(way, streamed):
    known, tasks = {}, {}
    config = ClientConfig(httpx_client=http, streaming=streamed)

    async def turn(question):
        if not known:
            card = await A2ACardResolver(http, f"{URL}/a2a/clerk").get_agent_card()
            known["client"] = ClientFactory(config).create(card)
        client = known["client"]
        message = pb.Message(
            message_id=uuid.uuid4().hex,
            role=pb.ROLE_USER,
            parts=[pb.Part(text=question)],
            context_id=known.get("context", ""),
        )
        async for update in client.send_message(pb.SendMessageRequest(message=message)):
            if update.HasField("task"):
                known["context"], latest = update.task.context_id, update.task.id
        tasks[latest] = question
        for id, asked in tasks.items():
            task = await client.get_task(pb.GetTaskRequest(id=id))
            assert task.context_id == known["context"]
            assert task.status.state == pb.TASK_STATE_COMPLETED
            assert [part.text for part in task.history[0].parts] == [asked]
        return "".join(part.text for part in task.artifacts[-1].parts)

    return turn


play(begin)
