"""A chat with the agents of a space, made of Gradio: `space.add(gradio_user)`, `demo.launch()`.

It needs the extra `gradio`. The studio (`moothall.studio`) is the larger page, and needs no Gradio.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Final

from moothall import BROADCAST, MissingExtra, MoothallError
from moothall.build import escaped, json_text
from moothall.studio.page_server import PORT, ServedHub
from moothall.studio.space import SpaceTab, StudioUser

if TYPE_CHECKING:
    from moothall.serving.doors import Front
    from moothall.studio.page_guard import PageGuard

_POLL_INTERVAL_S: Final = 0.5
"""Seconds between two looks of a page for what is new."""
_SHELL_PATHS: Final = re.compile(
    r"/(config|theme\.css|favicon\.ico|manifest\.json|(assets|static|svelte|studio/static)/.{0,230})"
)
_OPEN_CALLS: Final = re.compile(r"GET /gradio_api/queue/data|POST /gradio_api/(queue/join|cancel)")
"""Everything else of Gradio is closed: its uploads, files, proxies and components' own servers."""
_POLICY: Final = (  # Gradio's own page has scripts and styles in it
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
_HEAD: Final = """
<script>{
  const fetched = window.fetch;
  window.fetch = async (input, init) => {
    const request = new Request(input, init);
    request.headers.set("X-Moothall-Key", localStorage.getItem("moothall-studio-key"));
    const response = await fetched(request);
    if (response.status === 401) location.replace("/login");
    return response;
  };
}</script>
"""


class GradioChat(ServedHub):
    """One chat at one port, for the agents of one space.

    Its person is `user`. In each space that the person joins, the page asks for approvals, unless
    the space has its own approver. Before `launch`, no port is open and Gradio is not imported.

    Args:
        user: the id of the person, in a space

    Attributes:
        user: the person at the page, to be added to a space
        cards: what waits for the person; the Approver
        url: the address, without the token; None while it is not served
    """

    _server_name = "moothall chat"

    def __init__(self, user: str = "User") -> None:
        super().__init__()
        self.person = user
        self._space = SpaceTab(self)
        self.user: StudioUser = self._space.user

    def launch(
        self,
        port: int = PORT,
        host: str = "127.0.0.1",
        *,
        password: str | None = None,
        token: str | None = None,
        prevent_thread_lock: bool | None = None,
        quiet: bool = False,
    ) -> str:
        """Serve the chat.

        In a script it serves until Ctrl-C; in a notebook, or with `prevent_thread_lock=True`, it
        returns at once.

        Args:
            port: the port; 0 for any that is free
            host: the address to listen at; one that is not loopback needs a password
            password: what opens the page, instead of a token
            token: the token, of 16 characters or more; `MOOTHALL_STUDIO_TOKEN`, else a new one, if
                left out; not used with a password
            prevent_thread_lock: whether to return at once
            quiet: whether to print nothing

        Returns:
            the address, with its token

        Raises:
            ConfigError: an argument is wrong, or the port is taken
            MissingExtra: the extra `gradio` is not installed
        """
        return self._launch(
            port,
            host,
            password=password,
            token=token,
            prevent_thread_lock=prevent_thread_lock,
            quiet=quiet,
        )

    def _check_extra(self) -> None:
        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # else it reports usage to its makers
        MissingExtra.unless("the Gradio chat", "gradio", "gradio", "fastapi", "uvicorn")

    def _application(self, secret: str, host: str, is_password: bool, front: Front) -> PageGuard:
        import gradio
        from fastapi import FastAPI
        from fastapi.staticfiles import StaticFiles

        from moothall.studio.page import STATIC
        from moothall.studio.page_guard import PageGuard, ServedRoutes

        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        app.mount("/studio/static", StaticFiles(directory=STATIC))
        disabled = {"mcp_server": False, "ssr_mode": False, "run_history": False}
        gradio.mount_gradio_app(
            app,
            self._blocks(),
            path="/",
            footer_links=[],
            head=_HEAD,
            favicon_path=STATIC / "icon.svg",
            theme=gradio.themes.Base(font=("system-ui", "sans-serif"), font_mono=("monospace",)),
            **disabled,
        )
        routes = ServedRoutes(
            pages=re.compile("/"),
            shell=_SHELL_PATHS,
            requests=_OPEN_CALLS,
            cached_prefixes=("/assets/", "/static/", "/svelte/"),
            policy=_POLICY,
        )
        return PageGuard(app, secret, host, routes, is_password=is_password, front=front)

    def _blocks(self) -> Any:
        """Return the page: the chat, what waits for the person, and the line."""
        import gradio

        options: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        with gradio.Blocks(title="moothall chat", analytics_enabled=False) as page:
            # Without Markdown and escaped: what others write is shown as it is written.
            chat = gradio.Chatbot(label="Messages", height="65vh", render_markdown=False)
            with gradio.Group(visible=False) as waiting_group:
                question = gradio.Textbox(label="Waits for you", interactive=False, lines=2)
                answer = gradio.Textbox(label="Answer", visible=False)
                choice = gradio.Radio(label="Permit", visible=False)
                with gradio.Row():
                    permit = gradio.Button("Permit")
                    refuse = gradio.Button("Refuse")
            line = gradio.Textbox(
                label="Line",
                placeholder="Say something to all, or /Agent.action name:value",
                submit_btn="Send",
            )
            page_state, card_number = gradio.State(None), gradio.State(0)
            outputs = [
                page_state,
                card_number,
                chat,
                waiting_group,
                question,
                answer,
                permit,
                refuse,
            ]
            outputs.append(choice)
            timer = gradio.Timer(_POLL_INTERVAL_S)
            # A look whose answer is lost on the way must not hold up those after it.
            timer.tick(self._changes_since, page_state, outputs, trigger_mode="multiple", **options)
            page.load(self._changes_since, page_state, outputs, **options)
            line.submit(self._say, line, line, **options)
            for button, permits in ((permit, True), (refuse, False)):
                inputs = [card_number, answer, choice]
                button.click(self._decision_handler(permits), inputs, answer, **options)
        return page

    def _changes_since(self, last_state: Any) -> list[Any]:
        """Return what has changed since a page looked last."""
        import gradio

        messages, cards = self._space.messages.page()["messages"], self.cards.to_json()
        state = [messages[-1]["number"] if messages else 0, [card["number"] for card in cards]]
        if state == last_state:
            return [gradio.skip()] * 9
        first_card = cards[0] if cards else None
        labels = first_card.get("choices") if first_card else None
        choices = [("this call", ""), *((label, word) for word, label in (labels or {}).items())]
        is_question = first_card is not None and first_card["kind"] == "question"
        return [
            state,
            first_card["number"] if first_card else 0,
            [self._chat_message(each) for each in messages],
            gradio.update(visible=first_card is not None),
            _card_text(first_card) if first_card else "",
            gradio.update(visible=is_question),
            gradio.update(value="Answer" if is_question else "Permit"),
            gradio.update(visible=not is_question),
            gradio.update(choices=choices, value="", visible=len(choices) > 1),
        ]

    def _chat_message(self, message: dict[str, Any]) -> dict[str, str]:
        name, args = message["action"]["name"], message["action"]["args"]
        field = {"say": "content", "response": "data", "error": "error"}.get(name)
        receiver = "" if message["to"] == BROADCAST else f" → {message['to']}"
        if field in args:
            value = args[field]
            text = value if isinstance(value, str) else json_text(value)
        else:
            text = " ".join((name, *(f"{key}:{json_text(each)}" for key, each in args.items())))
        is_mine = message["from"] == str(self.user.id)
        error_label = " error" if name == "error" else ""
        speaker = f"{message['from']}{receiver}{error_label}: "
        return {
            "role": "user" if is_mine else "assistant",
            "content": escape(_escape_lines(speaker + text)),
        }

    def _say(self, line: str) -> str:
        import gradio

        with _ErrorDisplay():
            sent = self._space.send(line)
            if sent is not None and (notice := self.user.why_undelivered(sent["to"])):
                gradio.Warning(escape(notice))
        return ""

    def _decision_handler(self, permits: bool) -> Callable[[int, str, str], str]:
        def decide(number: int, answer: str, choice: str) -> str:
            card = next((each for each in self.cards.to_json() if each["number"] == number), {})
            with _ErrorDisplay():
                if card.get("kind") == "question":
                    self.cards.decide(number, {"text": answer})
                else:
                    decision = {"permit": permits, "fingerprint": card.get("fingerprint")}
                    self.cards.decide(number, {**decision, "choice": choice or ""})
            return ""

        return decide


class _ErrorDisplay:
    """Has Gradio show an error in words, as text."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MoothallError):
            import gradio

            raise gradio.Error(escape(str(error)), print_exception=False) from error


def _escape_lines(text: str) -> str:
    """Return a text in which what is not seen, or turns a line around, is shown by its number."""
    return "\n".join(map(escaped, text.split("\n")))


def _card_text(card: dict[str, Any]) -> str:
    """Return in words what waits: the exact call, or the question."""
    if card["kind"] == "question":
        return _escape_lines(f"{card['agent']} asks: {card['text']}")
    return _escape_lines(f"{card['sender'] or card['run'] or 'A run'} wants {card['line']}")


demo: GradioChat = GradioChat()
"""A ready chat."""
gradio_user: StudioUser = demo.user
"""The person at its page, whose id is `User`."""
