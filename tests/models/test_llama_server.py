"""llama.cpp's own server, as a process beside: what it streams by each of its interfaces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import AnthropicModel, OpenAIModel, ReActAgent
from moothall.testing.model_suite import ACTIONS, joined_text, parts_of, run, user_message

pytestmark = pytest.mark.xdist_group("local_model")

SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_parallel, params.n_ctx, params.cache_ram_mib, params.verbosity = 1, 2048, 0, -1
params.ctx_shift = params.warmup = params.ui = params.fit_params = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def address(shallow: Path) -> Iterator[str]:
    started = [sys.executable, "-c", SERVER, str(shallow)]
    with subprocess.Popen(
        started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait(30) == 0


FORMS: dict[str, Callable[[str], Any]] = {
    "chat": lambda url: OpenAIModel("m", f"{url}/v1", max_tokens=9, temperature=0),
    "responses": lambda url: OpenAIModel(
        "m", f"{url}/v1", max_tokens=9, temperature=0, api="responses"
    ),
    "messages": lambda url: AnthropicModel("m", url, "k", max_tokens=9, temperature=0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("actions", (None, ACTIONS), ids=("plain", "actions"))
def test_llama_server_streams_what_it_answers_whole(address: str, form: str, actions: Any) -> None:
    model = FORMS[form](address)
    parts = run(parts_of(model, user_message("Say hello"), actions))
    whole = run(model.complete(user_message("Say hello"), actions))
    assert parts[-1].text == joined_text(parts) == whole.text
    assert whole.text.strip()
    assert parts[-1].usage.output_tokens == whole.usage.output_tokens == 9


@pytest.mark.parametrize("form", FORMS)
def test_llama_server_takes_three_turns_of_an_agent_with_actions(address: str, form: str) -> None:
    agent = ReActAgent("a", FORMS[form](address), actions=ACTIONS[:1], max_iterations=3)
    for said in ("Hello", "And 1 and 2?", "Thanks"):
        reply = agent.reply_sync(said)
        assert reply.stop_reason == "done", reply.detail
        assert reply.text
