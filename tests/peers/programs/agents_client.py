import openai
from play import URL, play, taxed

from agent import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)

set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)


@function_tool
def tax(price: int) -> str:
    """Tell the tax on a price."""
    return taxed(price)


def begin(way, streamed):
    kind = OpenAIChatCompletionsModel if way == "chat" else OpenAIResponsesModel
    agent = Agent(name="visitor", model=kind(model="clerk", openai_client=client), tools=[tax])
    history, about = [], {}

    async def turn(question):
        given = [*history, {"role": "user", "content": question}]
        if streamed:
            result = Runner.run_streamed(agent, given, **about)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, given, **about)
        if way == "responses":
            about["previous_response_id"] = result.last_response_id
        else:
            history[:] = result.to_input_list()
        return result.final_output

    return turn


play(begin)
