"""`a2a-sdk` 0.3: each line is a call of its client, the answer all that the client has read."""

import asyncio
import sys
from pathlib import Path

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, TaskIdParams, TaskQueryParams
from play import URL, play_on_loop

TOKEN = sys.argv[2:] and sys.argv[2]
http = httpx.AsyncClient(
    timeout=60, headers={"Authorization": f"Bearer {TOKEN}"} if TOKEN else None
)


def data(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def begin(way, streamed):
    known = {}

    async def turn(call):
        if not known:
            known["card"] = await A2ACardResolver(http, URL).get_agent_card()
            config = ClientConfig(httpx_client=http, streaming=streamed, polling=way == "polling")
            known["client"] = ClientFactory(config).create(known["card"])
        client, found = known["client"], []
        match call["do"]:
            case "send":
                async for event in client.send_message(Message.model_validate(call["message"])):
                    pair = event if isinstance(event, tuple) else (event, None)
                    found.append([data(each) if each else None for each in pair])
            case "follow":
                async for task, update in client.resubscribe(TaskIdParams(id=call["id"])):
                    found.append([data(task), data(update) if update else None])
                    if "noted" in call:  # where a test sees that it follows
                        Path(call["noted"]).touch()  # noqa: ASYNC240
                    if len(found) == call.get("most"):
                        break
            case "get":
                params = TaskQueryParams(id=call["id"], history_length=call.get("most"))
                found = data(await client.get_task(params))
            case "cancel":
                found = data(await client.cancel_task(TaskIdParams(id=call["id"])))
            case "card":
                found = data(known["card"])
        return found

    return turn


asyncio.run(play_on_loop(begin))
