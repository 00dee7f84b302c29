from play import URL, play, taxed
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=f"{URL}/v1", api_key="none")


def tax(price: int) -> str:
    """Tell the tax on a price."""
    return taxed(price)


async def drained(context, events):
    """Have the answers of the model streamed."""
    async for _ in events:
        pass


def begin(way, streamed):
    kind = OpenAIChatModel if way == "chat" else OpenAIResponsesModel
    settings = {"openai_previous_response_id": "auto"} if way == "responses" else {}
    agent = Agent(kind("clerk", provider=provider), tools=[tax], model_settings=settings)
    history = []

    async def turn(question):
        about = {"event_stream_handler": drained} if streamed else {}
        result = await agent.run(question, message_history=history, **about)
        history[:] = result.all_messages()
        return result.output

    return turn


play(begin)
