"""Three agents on one local model: two answer at the same time, then one sums up."""

import asyncio

from moothall import Conversation, ReActAgent, TurnEnded
from moothall.models import LocalModel


def in_turn(state):
    """Two at once, then the host, and then it is over."""
    return [["sailor", "farmer"], None, "host", None][state.turns]


async def main() -> None:
    with LocalModel(max_tokens=40) as model:
        talk = Conversation(
            [
                ReActAgent("sailor", model, system_prompt="You are a sailor. Say one sentence."),
                ReActAgent("farmer", model, system_prompt="You are a farmer. Say one sentence."),
                ReActAgent("host", model, system_prompt="Say in one sentence what was said."),
            ],
            next=in_turn,
        )
        async for event in talk.stream("What does rain mean to you?"):
            if isinstance(event, TurnEnded):
                print(f"{event.speaker}: {event.utterance.text}")
        print(f"{event.reply.usage.output_tokens} tokens, {event.reply.stop_reason}")


asyncio.run(main())  # in a notebook: await main()
