import json

import openai
from play import TAX, URL, play, taxed

client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
FUNCTION = {"name": "tax", "description": "Tell the tax on a price.", "parameters": TAX}


def completed(streamed, **body):
    if not streamed:
        return client.chat.completions.create(**body).choices[0].message
    with client.chat.completions.stream(**body) as stream:
        return stream.get_final_completion().choices[0].message


def chat(streamed):
    messages = []
    tools = [{"type": "function", "function": FUNCTION}]

    def turn(question):
        messages.append({"role": "user", "content": question})
        while True:
            message = completed(streamed, model="clerk", messages=messages, tools=tools)
            messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            if not message.tool_calls:
                return message.content
            for each in message.tool_calls:
                content = taxed(**json.loads(each.function.arguments))
                messages.append({"role": "tool", "tool_call_id": each.id, "content": content})

    return turn


def responded(streamed, **body):
    if not streamed:
        return client.responses.create(**body)
    with client.responses.stream(**body) as stream:
        return stream.get_final_response()


def output(call):
    text = taxed(**json.loads(call.arguments))
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}


def responses(streamed, whole):
    items, before = [], {}
    tools = [{"type": "function", "strict": True, **FUNCTION}]

    def turn(question):
        given = [{"role": "user", "content": question}]
        while True:
            items.extend(given)
            about = {"input": items} if whole else {"input": given, **before}
            response = responded(streamed, model="clerk", tools=tools, **about)
            before["previous_response_id"] = response.id
            about = {"exclude_none": True, "exclude": {"parsed_arguments"}}
            items.extend(each.model_dump(**about) for each in response.output)
            given = [output(each) for each in response.output if each.type == "function_call"]
            if not given:
                return response.output_text

    return turn


def begin(way, streamed):
    return chat(streamed) if way == "chat" else responses(streamed, way == "items")


play(begin)
