"""A user whom a model plays: with a goal, and with what the user knows."""

from __future__ import annotations

from typing import Any, Final

from moothall import Action, ConfigError, ConversationState, Model, ReActAgent, action

_PROMPT: Final = """\
You play a person who talks with an assistant, and write what this person says: one message at a
time, short, in the person's own words. You are not the assistant, and you help nobody.

What the person wants:
{goal}

What the person knows:
{knows}

Say only what the person knows, and only what you are asked for. What does not stand here, the
person does not know: say so, and make nothing up. Once the person has what they want, or will not
get it, call `end_conversation` with the last words."""


@action(terminal=True, idempotent=True, guard=())
async def end_conversation(last_words: str) -> str:
    """End the conversation.

    Args:
        last_words: what the person says last, such as "Thank you, bye."
    """
    return last_words


def ends_conversation(action: Any) -> bool:
    """Return whether a call's action is that by which a simulated person ends a conversation."""
    return getattr(action, "function", None) is _END.function


_END: Final = Action.of(end_conversation)


class SimulatedPerson(ReActAgent):
    """A user whom a model plays, to talk with an agent in a `Conversation`.

    The person speaks first, about the conversation's prompt, which is what the agent would say to
    begin with. Its words count as those of a user. It ends the conversation by an action, which
    `until=person.has_left` sees, and which is executed in a frozen world, too.

    Args:
        id: its id
        model: the model that plays it
        goal: what the person wants
        knows: what the person knows, and tells when asked
        **options: what a `ReActAgent` takes, such as `budget=`

    Raises:
        ConfigError: an argument is not valid
    """

    def __init__(
        self, id: str, model: Model | str, *, goal: str, knows: str = "", **options: Any
    ) -> None:
        for name, text in (("goal", goal), ("knows", knows)):
            if not isinstance(text, str) or (name == "goal" and not text.strip()):
                raise ConfigError(f"SimulatedPerson: {name}= must be a text, got {text!r:.80}")
        prompt = _PROMPT.format(goal=goal, knows=knows or "Nothing else.")
        super().__init__(id, model, system_prompt=prompt, actions=[end_conversation], **options)

    def has_left(self, state: ConversationState) -> bool:
        """Return whether the person has ended the conversation in the last turn."""
        ends = [each for each in state.steps if each.action == end_conversation.__name__]
        return any(
            utterance.speaker == self.id and utterance.text == end.value
            for utterance in state.said
            for end in ends
        )
