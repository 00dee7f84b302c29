"""A refusal that may be of what a request says or shows says so, whatever carries it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from models.openai_server import OpenAIServer, status, text
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


def test_refusal_of_content_stays_one_when_it_is_pickled() -> None:
    error = ContextOverflow("long", of_content=True)
    assert pickle.loads(pickle.dumps(error)).of_content
    assert not pickle.loads(pickle.dumps(ModelError("no"))).of_content


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
