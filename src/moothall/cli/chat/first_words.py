"""The program's own answers to what people type first, for use with a small model."""

from __future__ import annotations

import re
from typing import Final

from moothall.slash import format_slash

PROGRAM: Final = "(the program, not the model)"
"""The prefix of the program's own answers."""

_MODEL: Final = (
    "The model here is SmolLM2 with 135 million parameters: it runs in this process, without a key "
    "or a network, and is often wrong."
)
_BETTER: Final = (
    "For a better one: `moothall models` lists what there is here; then `moothall chat --model "
    "local:qwen3-4b`, `--model openai:gpt-4o-mini` with OPENAI_API_KEY, or `--model "
    "http://HOST/v1#NAME` for a server of your own."
)
_CAN: Final = (
    "Here you talk with agents: Chatty answers with the model, Host lists, reads, writes and runs "
    "things in this folder and asks you first. /help lists what can be typed, such as "
    "/Host.list_files; /quit leaves."
)
_NO_ACTIONS: Final = "The small model calls no actions by itself."
_FILES: Final = (
    f"{_NO_ACTIONS} Type /Host.list_files, or "
    '/Host.read_file file_name:"NAME"; you are asked before it is done. '
) + _BETTER
_ANSWERS: Final = {
    r"(hello|hi|hey|hallo|good (morning|evening|afternoon|day))( (there|you|chatty))?": (
        f"Hello! {_CAN}"
    ),
    r"(what|which things) can (you|i|it|this) (do|type|say|ask)( here)?|how does (this|it) work|"
    r"how do i (start|begin|use (this|it))|what now|menu|commands": f"{_CAN} {_MODEL}",
    r"(who|what) are you|what('?s| is) (your name|this|moothall)|who is (there|here|chatty)": (
        "moothall is a Python package for agents that talk, act and check each other's work; this "
        f"is its chat. {_CAN} {_MODEL}"
    ),
    r"(what|which) (ai |language )?(model|llm)( are you| is this| do you use)?|"
    r"are you (chatgpt|gpt|claude|an ai|a bot|a robot|real|human)|"
    r"why are you so (slow|bad|stupid|wrong)": f"{_MODEL} {_BETTER}",
    r"how (do|can) i (use|choose|change|give you) (my own|another|a (better|different)) model|"
    r"((use|change) (the )?)?models?": _BETTER,
    r"(can you )?(please )?(list|show|see|read|open) (me )?((the|my|all|your) )*files?|ls|dir|"
    r"what files are (here|there)|(can|could) you (read|see|write|edit) (my )?files": _FILES,
    r"how (do|can|could) i (quit|exit|leave|stop|end|close)( (this|it|here|the chat|moothall))?|"
    r"how (do|can|could) i get out( of (this|it|here|the chat))?|"
    r"i (want|would like) to (quit|exit|leave)|let me out": "/quit, /exit or Ctrl-D leaves.",
    r"((can|could) you )?(please )?(tell|say|write|compose|make up) (me )?(a|an|another) "
    r"(short |little |funny )*(joke|poem|story|song|haiku|limerick)( (about|on|of|for) .+)?": (
        f"That is beyond a model this small: what it makes up is seldom funny. {_BETTER}"
    ),
    r"thanks|thank you( very much)?|thx|cheers": "You are welcome. /quit leaves.",
    r"how are you( doing)?|are you there|test|testing|ping": f"This works. {_CAN}",
    r"(what('?s| is) )?\d+([.,]\d+)? ?[-+*/x×÷] ?\d+([.,]\d+)?": (
        f"The small model cannot be trusted with numbers, so it was not asked. {_BETTER}"
    ),
    r"what('?s| is) the (time|date|weather)( now| today)?|what (time|day) is it( today)?": (
        "The model knows neither the time nor the weather, and would make something up. "
        '/Host.shell_command command:"date" tells the time.'
    ),
}


_FILE = r"['\"`]?([^\s'\"`]*\.\w{1,8})['\"`]?[ ?!.]*"
_THE = r"(?:(?:the|my|a|new|file) )*"
_ASK = r"(?:(?:can|could|would) you )?(?:please )?"
_ACTIONS: Final = {
    rf"{_ASK}(?:read|show|open|print|cat|view|display)(?: me)? {_THE}{_FILE}": "read_file",
    rf"what(?: is|'?s)? in(?:side)? {_THE}{_FILE}": "read_file",
    rf"{_ASK}(?:delete|remove|rm|erase) {_THE}{_FILE}": "delete_file",
    rf"{_ASK}(?:create|make|write|touch) {_THE}{_FILE}": "write_to_file",
    rf"{_ASK}(?:run|execute) (?:the )?(?:(?:shell )?command )?"
    r"(?!(?:an?|it|this|that|my|your|away)\b)(\S.*)": "shell_command",
}
"""Patterns of what people ask Host in words, and the action that does it."""
_MOST: Final = 300  # the most characters of a line that is searched for an action


def first_answer(line: str) -> str | None:
    """Return the program's own answer to a line, or None."""
    said = " ".join(line.lower().split()).rstrip(" ?!.=")
    for pattern, answer in _ANSWERS.items():
        if re.fullmatch(pattern, said):
            return answer
    said = line.strip()
    if len(said) > _MOST or not said.isprintable():
        return None
    for pattern, name in _ACTIONS.items():
        if found := re.fullmatch(pattern, said, re.IGNORECASE):
            typed = _host(name, found[1])
            return f"{_NO_ACTIONS} Type {typed} and you are asked before it is done."
    return None


def _host(name: str, what: str) -> str:
    """Return the line that asks Host for an action on a file, or for a command."""
    if len(what) > 2 and what[0] in "'\"`" and what.find(what[0], 1) == len(what) - 1:
        what = what[1:-1]  # a command in quotes
    args = {"command" if name == "shell_command" else "file_name": what}
    if name == "write_to_file":
        args["content"] = "the whole text"
    return format_slash({"to": "Host", "action": {"name": name, "args": args}})
