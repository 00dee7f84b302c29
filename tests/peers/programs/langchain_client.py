from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from play import URL, play, taxed

WAYS = {
    "chat": {},
    "responses": {"use_responses_api": True, "use_previous_response_id": True},
    "items": {"use_responses_api": True, "output_version": "responses/v1"},
}


@tool
def tax(price: int) -> str:
    """Tell the tax on a price."""
    return taxed(price)


def begin(way, streamed):
    about = {"base_url": f"{URL}/v1", "api_key": "none", "max_retries": 0, **WAYS[way]}
    model = ChatOpenAI(model="clerk", **about).bind_tools([tax])
    messages = []

    def answered():
        if not streamed:
            return model.invoke(messages)
        whole, *rest = model.stream(messages)
        for each in rest:
            whole += each
        return whole

    def turn(question):
        messages.append(HumanMessage(question))
        while True:
            message = answered()
            messages.append(message)
            if not message.tool_calls:
                text = message.text
                return text() if callable(text) and not isinstance(text, str) else str(text)
            messages.extend(tax.invoke(each) for each in message.tool_calls)

    return turn


play(begin)
