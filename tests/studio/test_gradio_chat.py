"""Seed 004's page: `from moothall.studio.gradio import demo, gradio_user`, a real Gradio chat."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, expect

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    Call,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.foundation.errors import ConfigError
from moothall.studio.gradio import GradioChat, demo, gradio_user

TOKEN = "t" * 20


class Clerk(Agent):
    """Answers, and asks before it deletes."""

    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @action(access_policy=ACCESS_REQUESTED, facts={"danger": "high"})
    async def delete(self, path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"


@pytest.mark.long
@pytest.mark.timeout(120)  # Gradio takes seconds to load
def test_gradio_chat_talks_with_a_space_and_approves(browser: Browser) -> None:
    """A line is said, an action is called, another is permitted and refused; nothing else is open.

    What others write is text; a page that was loaded later shows what was said before.
    """
    assert gradio_user is demo.user
    with NativeSpace() as space, demo:
        space.add(Clerk("Clerk"))
        space.add(gradio_user)
        url = demo.launch(port=0, token=TOKEN, prevent_thread_lock=True, quiet=True)
        with pytest.raises(ConfigError, match="is served at"):
            demo.launch(0)
        page = browser.new_page()
        page.goto(url)
        line = page.get_by_label("Line")
        line.fill("<b>Hello</b>")
        line.press("Enter")
        expect(page.get_by_text("User: <b>Hello</b>").first).to_be_visible()
        line.fill("/Clerk.add a:6 b:x")
        line.press("Enter")
        expect(page.get_by_text("expected a JSON value").first).to_be_visible()
        line.fill("/Nobody.add")
        line.press("Enter")
        expect(page.get_by_text('There is no agent "Nobody" here').first).to_be_visible()
        line.fill("/Clerk.add a:6 b:7")
        line.press("Enter")
        expect(page.get_by_text("Clerk → User: 13").first).to_be_visible()
        assert space.approver is demo.cards
        for path, button, outcome in (
            ("a", "Permit", "a is gone"),
            ("b", "Refuse", '"Clerk.delete" not permitted'),
        ):
            line.fill(f"/Clerk.delete path:{path!r}".replace("'", '"'))
            line.press("Enter")
            expect(page.get_by_label("Waits for you")).to_have_value(
                f'User wants /Clerk.delete path:"{path}" (danger: high)'
            )
            page.get_by_role("button", name=button).click()
            expect(page.get_by_text(outcome).first).to_be_visible()
        page.reload()
        expect(page.get_by_text("a is gone").first).to_be_visible()
        # Of a run, a person may permit all calls of the action.
        calls = [Call(each, "delete", {"path": each}) for each in ("c", "d")]
        script = ScriptedModel([*(ModelReply("", (each,)) for each in calls), "Both are gone."])
        space.add(ReActAgent("Cleaner", script, actions=[Clerk("C").delete]))
        line.fill('/Cleaner.say content:"Clean up."')
        line.press("Enter")
        page.get_by_label("Always in this run").check()
        page.get_by_role("button", name="Permit").click()
        expect(page.get_by_text("Both are gone.").first).to_be_visible()
        page.close()
        for path in ("gradio_api/upload", "gradio_api/file=/etc/passwd", "gradio_api/mcp/sse"):
            known = Request(f"{demo.url}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
            with pytest.raises(HTTPError, match="404"):
                urlopen(known, timeout=20)
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{demo.url}config", timeout=20)
    assert demo.url is None


def test_gradio_chat_at_another_address_needs_a_password() -> None:
    with pytest.raises(ConfigError, match="needs a password"), GradioChat("Ann") as chat:
        chat.launch(0, "0.0.0.0", prevent_thread_lock=True)
