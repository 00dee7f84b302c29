from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import moothall
from models.openai_server import OpenAIServer, text
from moothall.foundation.errors import MissingExtra, ModelError, WeightsError
from moothall.models import ScriptedModel, model


def test_model_of_a_model_is_that_model() -> None:
    scripted = ScriptedModel()
    assert model(scripted) is scripted


@pytest.mark.parametrize("name", ("", "remote", "local:", "gguf:", "gguf", "Local", "local/x"))
def test_model_name_unknown_lists_the_known_forms(name: str) -> None:
    with pytest.raises(ModelError, match=r"names are local, local:NAME, gguf:PATH") as caught:
        model(name)
    assert "\n" not in str(caught.value)


def test_model_of_neither_model_nor_name_is_refused() -> None:
    with pytest.raises(ModelError, match="neither a model nor the name of one"):
        model(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ("hf:org/name", "hf:./folder", "hf:", "EleutherAI/gpt-neo-125m"))
def test_hf_name_is_refused_and_says_what_to_write_instead(name: str) -> None:
    with pytest.raises(ModelError, match=r"behind a server .* models fetch .* http://HOST/v1#NAME"):
        model(name)


def test_model_of_a_name_is_the_same_until_it_is_closed(weights: Path) -> None:
    first = model("local")
    assert first.name == "local:smollm2-135m"
    assert model("local:smollm2-135m") is first
    assert model("local") is first
    first.close()  # type: ignore[attr-defined]
    second = model("local")
    assert second is not first
    second.close()  # type: ignore[attr-defined]


def test_gguf_name_takes_any_file_by_its_path(weights: Path) -> None:
    by_path = model(f"gguf:{weights}")
    assert by_path.name == f"gguf:{weights}"
    by_path.close()  # type: ignore[attr-defined]


def test_model_of_a_name_takes_what_a_server_is_asked_with() -> None:
    with OpenAIServer(text("Yes.")) as server:
        name = f"{server.url}#m"
        shared = model(name, headers={"X-Team": "search"}, context_tokens=500)
        assert shared is model(name, headers={"X-Team": "search"}, context_tokens=500)
        assert (shared.context_tokens, shared is model(name)) == (500, False)
        keyed = model(name, "k")
        assert (keyed is model(name, "k"), keyed is model(name, "other")) == (True, False)
        asyncio.run(shared.complete([{"role": "user", "content": "?"}]))
        assert server.requests[0].headers["x-team"] == "search"


def test_settings_in_a_name_are_fields_of_the_requests_and_not_of_the_models_name() -> None:
    with OpenAIServer(text("Yes."), text("No."), text("Yes.")) as server:
        name = f"{server.url}?api-version=1#m"
        whole_name = f"{name}?temperature=0.5&seed=7&reasoning_effort=low&store=false"
        mild, plain = model(whole_name), model(name)
        assert model(whole_name) is mild
        assert mild.name == plain.name == name
        for each in (mild, plain):
            asyncio.run(each.complete([{"role": "user", "content": "Hi"}]))
    mild_body, plain_body = (each.body for each in server.requests)
    settings = {"temperature": 0.5, "seed": 7, "reasoning_effort": "low", "store": False}
    assert mild_body == {**plain_body, **settings}


def test_settings_in_a_name_of_local_weights_are_arguments_and_options(weights: Path) -> None:
    with model("local?max_tokens=20&top_p=0.9") as short:  # type: ignore[attr-defined]
        assert (short.name, short.max_tokens) == ("local:smollm2-135m", 20)
        assert model("local") is not short
    with pytest.raises(ModelError, match=r"a name in options= must be .*, got 'warmth'"):
        model("local?warmth=1")


@pytest.mark.parametrize("query", ("messages=none", "model=other"))
def test_settings_in_a_name_that_requests_have_themselves_are_refused(query: str) -> None:
    with pytest.raises(ModelError, match=r"options= cannot set"):
        model(f"http://127.0.0.1:9/v1#m?{query}")


def test_listed_weights_that_are_not_here_say_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path))
    with pytest.raises(WeightsError, match=r"run: moothall models fetch$"):
        model("local")
    with pytest.raises(WeightsError, match=r"run: moothall models fetch qwen3-4b$"):
        model("local:qwen3-4b")
    with pytest.raises(WeightsError, match="no weights called 'qwen99'; there are smollm2-135m"):
        model("local:qwen99")


def test_importing_models_loads_nothing_heavy() -> None:
    heavy = ("xllamacpp", "huggingface_hub", "pydantic", "jsonschema_rs", "asyncio")
    code = (
        "import sys, moothall.models; "
        f"print([name for name in {heavy} if name in sys.modules]); "
        "from moothall.models import Call, Model, ModelReply, ScriptedModel, Usage, model; "
        "assert callable(model)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "kind", ("ReActAgent", "ChattyAI", "Researcher", "OpenAIFunctionAgent", "ChosenBy")
)
def test_agent_of_a_missing_model_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def made(name: str) -> Any:
        cls = getattr(moothall, kind)
        return cls(name) if kind == "ChosenBy" else cls("a", name)

    for name, told in (
        ("local:smollm3", "no weights called 'smollm3'"),
        ("gguf:/nowhere.gguf", "there is no such file"),
        ("http://127.0.0.1/v1", "does not say which model"),
        ("http://127.0.0.1:port/v1#x", "no such model: its address must be like http://host"),
    ):
        with pytest.raises(ModelError, match=told):
            made(name)
    if kind != "OpenAIFunctionAgent":  # its names are OpenAI's
        with pytest.raises(ModelError, match="there is no model 'lcoal:x'"):
            made("lcoal:x")
    assert made("openai:gpt-4o-mini") is not None  # its first call says that there is no key


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    (
        ("aiohttp", "http://127.0.0.1:1/v1#x", "openai"),
        ("xllamacpp", "gguf:x.gguf", "local"),
    ),
)
def test_agent_of_a_model_whose_extra_is_missing_is_refused(
    package: str, name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for make in (moothall.ReActAgent, moothall.ChattyAI, moothall.Researcher):
        with pytest.raises(MissingExtra, match=rf"pip install 'moothall\[{extra}\]'"):
            make("a", name)


def test_making_an_agent_loads_no_model() -> None:
    program = (
        "import sys, moothall\n"
        "moothall.ReActAgent('a', 'http://127.0.0.1:1/v1#x')\n"
        "print([name for name in ('aiohttp', 'xllamacpp', 'torch') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_society_or_toolbox_of_a_missing_model_is_refused() -> None:
    for make in (moothall.AgentToolbox, lambda name: moothall.Society(1, model=name)):
        with pytest.raises(ModelError, match="there is no model 'lcoal'"):
            make("lcoal")


@pytest.mark.parametrize(
    ("name", "meant"),
    (
        ("gpt-4o", "openai:gpt-4o"),
        ("o3-mini", "openai:o3-mini"),
        ("o4-mini", "openai:o4-mini"),
        ("chatgpt-4o-latest", "openai:chatgpt-4o-latest"),
        ("claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("deepseek-chat", "deepseek:deepseek-chat"),
        ("gemini-2.5-pro", "gemini:gemini-2.5-pro"),
    ),
)
def test_model_name_without_its_provider_is_refused_with_the_whole_name(
    name: str, meant: str
) -> None:
    with pytest.raises(ModelError, match=f"there is no model '{name}' \\(did you mean '{meant}'"):
        model(name)


@pytest.mark.parametrize("name", ("nope", "none", "best", "phi"))
def test_names_unlike_any_are_refused_without_a_proposal(name: str) -> None:
    with pytest.raises(ModelError, match=f"there is no model '{name}'; names are local, "):
        model(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    (("opnai:x", "openai"), ("loacl", "local"), ("antropic:x", "anthropic"), ("llama", "ollama")),
)
def test_names_like_a_known_one_are_refused_with_it(name: str, meant: str) -> None:
    with pytest.raises(ModelError, match=f"\\(did you mean '{meant}"):
        model(name)
