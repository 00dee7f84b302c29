"""Earlier responses: their text, their input, deleting and cancelling them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import parse_qsl

from moothall import NoSuchRun, RunHeld, StateError, Usage
from moothall.build import as_json, json_text
from moothall.journal import Outline, RunView
from moothall.memory import split_message
from moothall.models import BLOCKS
from moothall.serving.doors.asks import waiting_text
from moothall.serving.doors.callers import sender_of
from moothall.serving.doors.checks import Send, in_thread
from moothall.serving.doors.openai.client_outcome import (
    outcome_of,
    waiting_outcome,
    wants_last_text,
)
from moothall.serving.doors.openai.items import item_type, response_request
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.openai.output import ResponseForm, send_json
from moothall.serving.doors.openai.response_chain import (
    ECHO_KEY,
    ITEM_ID,
    ResponseChain,
    run_id_of,
    thread_of,
)
from moothall.serving.doors.protocols import OPENAI
from moothall.serving.doors.served.served_run import CallerRequest, recorded_run
from moothall.serving.doors.served_agents import Served

_MAX_ITEMS: Final = 100


@contextmanager
def _refusing_deleted() -> Iterator[None]:
    """Refuse a response that is deleted while it is read."""
    try:
        yield
    except NoSuchRun:
        text = "this response was deleted meanwhile"
        raise BadRequest(text, "response_id", "response_not_found", 404) from None


class StoredResponses:
    """The responses of callers; a caller finds only its own.

    Args:
        served: the agents, in whose journals they are
        chain: those that this process has kept
    """

    def __init__(self, served: Served, chain: ResponseChain) -> None:
        self._served = served
        self._chain = chain

    async def get(self, params: dict[str, Any], send: Send, caller: str) -> None:
        """Send a response, whole: its stream has ended, or has its own client."""
        if dict(parse_qsl(params["query"])).get("stream") == "true":
            raise BadRequest("stream is for a new response: get this one whole", "stream")
        await send_json(send, 200, await in_thread(self._load, params["id"], caller))

    async def delete(self, params: dict[str, Any], send: Send, caller: str) -> None:
        """Delete a response, in the agent's journal too."""
        await in_thread(self._delete, params["id"], caller)
        await send_json(send, 200, {"id": params["id"], "object": "response", "deleted": True})

    async def cancel(self, params: dict[str, Any], send: Send, caller: str) -> None:
        """Cancel a response that waits for a person, and send it."""
        await send_json(send, 200, await in_thread(self._cancel, params["path:id"], caller))

    async def input_items(self, params: dict[str, Any], send: Send, caller: str) -> None:
        """Send the input of a response, the last item first."""
        query = dict(parse_qsl(params["query"]))
        limit, order = query.get("limit", "20"), query.get("order", "desc")
        if not (limit.isdecimal() and len(limit) < 4 and 1 <= int(limit) <= _MAX_ITEMS):
            raise BadRequest(f"limit must be from 1 to {_MAX_ITEMS}", "limit")
        if order not in ("asc", "desc"):
            raise BadRequest("order must be asc or desc", "order")
        items = await in_thread(self._input_items, params["id"], caller)
        if order == "desc":
            items.reverse()
        ids = [each["id"] for each in items]
        if (after := query.get("after")) is not None:
            if after not in ids:
                raise BadRequest("after names no item of this response", "after")
            items = items[ids.index(after) + 1 :]
        page = items[: int(limit)]
        edges = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        page_info = {"has_more": len(items) > len(page), "first_id": None, "last_id": None}
        await send_json(send, 200, {"object": "list", "data": page, **page_info, **edges})

    async def resolve_references(self, body: dict[str, Any], caller: str) -> dict[str, Any]:
        """Return a request with the items of the caller's responses that it names by their ids."""
        items = body.get("input")
        if not isinstance(items, list) or not any(map(_referenced_item, items)):
            return body
        return {**body, "input": await in_thread(self._resolve, items, caller)}

    # -- finding; these read files -----------------------------------------------------------------

    @_refusing_deleted()
    def _load(self, id: str, caller: str) -> dict[str, Any]:
        run_id, sender = run_id_of(id), sender_of(OPENAI.sender, caller)
        stored = self._chain.response(run_id, sender)
        if stored is not None:
            return stored
        agent, run = self._agent_and_run(run_id, sender)
        view = RunView(agent.journal, run)
        echo = view.begun_with(ECHO_KEY) or {}
        request = response_request({**echo, "model": run.agent, "input": "-"})
        response = ResponseForm(request, run_id, int(run.began))
        ids = run_id, run.agent, sender, caller
        served_run = recorded_run(CallerRequest(*ids), view, agent, may_permit=False)
        state, reply = served_run.state, served_run.reply
        if state.waits:
            usage = Usage() if view.reply is None else view.reply.usage
            return response.complete(waiting_outcome(state.waits, usage))
        if state.name == "cancelled":
            return {**response.unfinished(), "status": "cancelled"}
        if reply is None:
            return response.unfinished()
        try:
            only_last_text = wants_last_text(request, agent)
            outcome = outcome_of(reply, request, agent, (), only_last_text, state.text)
        except BadRequest as wrong:
            return response.failed_response(wrong)
        return response.complete(outcome, int(run.changed))

    def _resolve(self, references: list[Any], caller: str) -> list[Any]:
        items_by_id: dict[str, dict[str, Any]] = {}  # the items of the responses read so far, by id
        read_runs = set[str]()
        resolved_items: list[Any] = []
        for item in references:
            item_id, run_id = _referenced_item(item) or ("", "")
            if run_id and run_id not in read_runs:
                id = f"resp_{run_id}"
                read_runs.add(run_id)
                with suppress(BadRequest):  # the door refuses what is not found
                    items = [*self._load(id, caller)["output"], *self._input_items(id, caller)]
                    items_by_id |= {each["id"]: each for each in items}
            resolved_items.append(items_by_id.pop(item_id, item))  # once
        return resolved_items

    def _delete(self, id: str, caller: str) -> None:
        run_id, sender = run_id_of(id), sender_of(OPENAI.sender, caller)
        try:
            agent, run = self._agent_and_run(run_id, sender)
        except BadRequest:
            if not self._chain.drop(run_id, sender):
                raise
            return
        _check_no_doubt(agent, run)
        try:
            with suppress(NoSuchRun):
                agent.journal.delete(*{run_id, run.id})
        except RunHeld:
            raise _in_progress_error() from None
        self._chain.drop(run_id, sender)

    @_refusing_deleted()
    def _cancel(self, id: str, caller: str) -> dict[str, Any]:
        run_id, sender = run_id_of(id), sender_of(OPENAI.sender, caller)
        if self._chain.response(run_id, sender) is None:
            agent, run = self._agent_and_run(run_id, sender)
            _check_no_doubt(agent, run)
            try:
                agent.journal.waits.cancel(run.id, "the response was cancelled")
                return self._load(id, caller)
            except StateError:
                pass
        raise BadRequest("this response has ended, so it cannot be cancelled", "response_id")

    @_refusing_deleted()
    def _input_items(self, id: str, caller: str) -> list[dict[str, Any]]:
        run_id, sender = run_id_of(id), sender_of(OPENAI.sender, caller)
        messages = self._chain.new_messages_of(run_id, sender)
        if messages is None:
            agent, run = self._agent_and_run(run_id, sender)
            task = RunView(agent.journal, run).task
            messages = split_message({"role": "user", "content": task})
        items = [item for each in messages for item in _items_of(each)]
        return [{**item, "id": f"in_{run_id}_{number}"} for number, item in enumerate(items)]

    def _agent_and_run(self, run_id: str, sender: str) -> tuple[Any, Outline]:
        """Return the agent and the run of a caller's response."""
        for id, agent in self._served.replying().items():
            if (journal := self._served.journal_of(id)) is None:
                continue
            try:
                run = journal.run(run_id)
            except NoSuchRun:
                continue
            if (run.agent, run.thread) == (id, thread_of(sender, run_id)):
                return agent, run
        text = f"Response with id 'resp_{run_id}' not found."
        raise BadRequest(text, "response_id", "response_not_found", 404)


def _items_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a chat message as the items of a response's input."""
    role, content = message["role"], message["content"]
    if role == "tool":
        fields = {"call_id": message["tool_call_id"], "status": "completed"}
        return [{"type": "function_call_output", **fields, "output": json_text(content)}]
    kind = "output_text" if role == "assistant" else "input_text"
    parts: list[dict[str, Any]] = []
    for each in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if each.get("type") == "image_url":
            image = each["image_url"]
            detail = image.get("detail", "auto")
            parts.append({"type": "input_image", "image_url": image["url"], "detail": detail})
        elif each.get("type") == "file":
            parts.append({"type": "input_file", **each["file"]})
        elif each.get("type") in BLOCKS:
            parts.append(dict(each))
        elif each.get("text"):
            annotations: dict[str, Any] = {"annotations": []} if role == "assistant" else {}
            parts.append({"type": kind, "text": each["text"], **annotations})
    items: list[dict[str, Any]] = []
    if parts:
        items.append({"type": "message", "role": role, "status": "completed", "content": parts})
    for call in message.get("tool_calls") or ():
        args = {"name": call["name"], "arguments": json_text(as_json(call["args"]))}
        items.append(
            {"type": "function_call", "call_id": call["id"], "status": "completed", **args}
        )
    return items


def _referenced_item(item: Any) -> tuple[str, str] | None:
    """Return the id by which a reference names an item, and the run in whose response that is."""
    id = item.get("id") if isinstance(item, dict) and item_type(item) == "item_reference" else None
    match = ITEM_ID.fullmatch(id) if isinstance(id, str) else None
    return None if match is None else (match[0], match[1])


def _check_no_doubt(agent: Any, run: Outline) -> None:
    """Refuse to end or delete a response of which a call is in doubt: its operator must know."""
    waits = RunView(agent.journal, run).all_waits
    if any(each.kind == "doubt" for each in waits):
        raise _in_progress_error(waiting_text(waits))


def _in_progress_error(state_text: str = "under way") -> BadRequest:
    return BadRequest(f"this response is {state_text}", None, "response_in_progress", 409)
