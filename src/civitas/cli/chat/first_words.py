"""What the program itself answers to what people type first, where only a small model is there."""

from __future__ import annotations

import re
from typing import Final

PROGRAM: Final = "(the program, not the model)"
"""What stands before what the program answers."""

_MODEL: Final = (
    "The model here is SmolLM2 with 135 million parameters: it runs in this process, without a key "
    "or a network, and is often wrong."
)
_BETTER: Final = (
    "For a better one: `civitas models` lists what there is here; then `civitas chat --model "
    "local:qwen3-4b`, `--model openai:gpt-4o-mini` with OPENAI_API_KEY, or `--model "
    "http://HOST/v1#NAME` for a server of your own."
)
_CAN: Final = (
    "Here you talk with agents: Chatty answers with the model, Host lists, reads, writes and runs "
    "things in this folder and asks you first. /help lists what can be typed, such as "
    "/Host.list_files; /quit leaves."
)
_FILES: Final = (
    "The small model calls no actions by itself. Type /Host.list_files, or "
    '/Host.read_file file_name:"NAME"; you are asked before it is done. '
) + _BETTER
_ANSWERS: Final = {
    r"(hello|hi|hey|hallo|good (morning|evening|afternoon|day))( (there|you|chatty))?": (
        f"Hello! {_CAN}"
    ),
    r"(what|which things) can (you|i|it|this) (do|type|say|ask)( here)?|how does (this|it) work|"
    r"how do i (start|begin|use (this|it))|what now|menu|commands": f"{_CAN} {_MODEL}",
    r"(who|what) are you|what('?s| is) (your name|this|civitas)|who is (there|here|chatty)": (
        "civitas is a Python package for agents that talk, act and check each other's work; this "
        f"is its chat. {_CAN} {_MODEL}"
    ),
    r"(what|which) (ai |language )?(model|llm)( are you| is this| do you use)?|"
    r"are you (chatgpt|gpt|claude|an ai|a bot|a robot|real|human)|"
    r"why are you so (slow|bad|stupid|wrong)": f"{_MODEL} {_BETTER}",
    r"how (do|can) i (use|choose|change|give you) (my own|another|a (better|different)) model|"
    r"((use|change) (the )?)?models?": _BETTER,
    r"(can you )?(please )?(list|show|see|read|open) (me )?((the|my|all|your) )*files?|ls|dir|"
    r"what files are (here|there)|(can|could) you (read|see|write|edit) (my )?files": _FILES,
    r"(tell|say) (me )?(a|another) joke|(write|tell) (me )?a (poem|story)": (
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


def first_answer(line: str) -> str | None:
    """What the program answers to a line; None where it has nothing of its own to say."""
    said = " ".join(line.lower().split()).rstrip(" ?!.=")
    for pattern, answer in _ANSWERS.items():
        if re.fullmatch(pattern, said):
            return answer
    return None
