"""A refusal that may be of what a request says or shows says so, whatever carries it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from models.openai_server import OpenAIServer, status, text
from models.test_exchanges import FORMS
from moothall import Budget
from moothall.foundation.errors import ContextOverflow, ModelError
from moothall.models import BudgetedModel, FallbackModel, OpenAIModel, ScriptedModel
from moothall.testing.model_suite import run, user_message


def refused(model: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        run(model.complete(user_message("Hi")))
    return caught.value


def broken(of_content: bool) -> ScriptedModel:
    return ScriptedModel([ModelError("no", of_content=of_content)])


def test_refusal_of_content_stays_one_when_its_key_is_hidden() -> None:
    with OpenAIServer(status(400, "no: sk-a-secret")) as server:
        error = refused(OpenAIModel("m", server.url, "sk-a-secret"))
    assert "sk-a" not in str(error)
    assert (error.of_content, error.status) == (True, 400)


def test_refusal_of_content_stays_one_in_a_copy() -> None:
    error = ContextOverflow("long", of_content=True)
    assert copy.copy(error).of_content
    assert not copy.copy(ModelError("no")).of_content


@pytest.mark.parametrize("kinds", ((True, True), (True, False), (False, True)))
def test_fallback_is_refused_for_content_if_all_its_models_are(kinds: tuple[bool, bool]) -> None:
    assert refused(FallbackModel(map(broken, kinds))).of_content is all(kinds)


def test_budget_takes_no_tokens_for_a_refusal_of_content() -> None:
    budget = Budget(tokens=10_000, model_calls=5)
    with OpenAIServer(status(400, "filtered"), status(404, "gone")) as server:
        model = BudgetedModel(OpenAIModel("m", server.url), budget)
        assert refused(model).of_content
        assert (budget.spent.tokens, budget.spent.model_calls) == (0, 1)
        assert not refused(model).of_content
        assert budget.spent.tokens > 4_000  # whoever fails otherwise may send a bill


def test_budget_takes_the_stated_usage_of_a_withheld_answer() -> None:
    with OpenAIServer(text("", finish_reason="content_filter")) as server:
        budget = Budget(tokens=10_000)
        assert refused(BudgetedModel(OpenAIModel("m", server.url), budget)).of_content
    assert 0 < budget.spent.tokens < 100


def image(kind: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,aGk="}}


@pytest.mark.parametrize(
    "shown", (image("avif"), {**image("avif"), "image_url": "data:image/avif;base64,aGk="})
)
@pytest.mark.parametrize("form", FORMS)
def test_image_of_a_type_that_no_server_takes_is_not_sent(form: str, shown: Any) -> None:
    messages = [*user_message("Hi"), {"role": "user", "content": [image("png"), shown]}]
    with OpenAIServer(text("never")) as server:
        model = FORMS[form](server.url)
        with pytest.raises(
            ModelError, match=r"messages\[1\]: images must be PNG.*'image/avif'"
        ) as e:
            run(model.complete(messages))
        assert (e.value.of_content, server.requests) == (True, [])


def test_image_of_an_action_that_no_server_takes_names_the_action() -> None:
    result = {"role": "tool", "tool_call_id": "c", "name": "look", "content": [image("avif")]}
    with OpenAIServer(text("never")) as server, pytest.raises(ModelError, match="action 'look'"):
        run(OpenAIModel("m", server.url).complete([*user_message("Hi"), result]))


@pytest.mark.parametrize("kind", ("png", "jpeg", "jpg", "gif", "webp", "PNG"))
def test_image_of_a_type_that_all_take_is_sent(kind: str) -> None:
    with OpenAIServer(text("A cat.")) as server:
        said = [{"role": "user", "content": [image(kind)]}]
        assert run(OpenAIModel("m", server.url).complete(said)).text == "A cat."
        assert server.requests[0].body["messages"][0]["content"] == [image(kind)]


def test_image_of_a_type_that_one_provider_takes_is_sent_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    with OpenAIServer(text("A cat.")) as server:
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        said = [{"role": "user", "content": [image("heic")]}]
        assert run(OpenAIModel("m", provider="gemini").complete(said)).text == "A cat."


def test_budget_takes_no_tokens_for_an_image_that_is_not_sent() -> None:
    budget = Budget(tokens=10_000)
    with OpenAIServer(text("never")) as server:
        model = BudgetedModel(OpenAIModel("m", server.url), budget)
        with pytest.raises(ModelError, match="images must be"):
            run(model.complete([{"role": "user", "content": [image("avif")]}]))
    assert budget.spent.tokens == 0
