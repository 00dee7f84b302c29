import OpenAI from "openai";
import { play, tax, taxed, url } from "./play.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });

async function completed(body, streamed) {
  if (!streamed) return (await client.chat.completions.create(body)).choices[0].message;
  const chat = client.chat.completions.stream ? client.chat : client.beta.chat;
  return (await chat.completions.stream(body).finalChatCompletion()).choices[0].message;
}

function chat(streamed) {
  const messages = [];
  const tools = [{ type: "function", function: tax }];
  return async (question) => {
    messages.push({ role: "user", content: question });
    for (;;) {
      const message = await completed({ model: "clerk", messages, tools }, streamed);
      messages.push(message);
      if (!message.tool_calls?.length) return message.content;
      for (const each of message.tool_calls) {
        const content = taxed(JSON.parse(each.function.arguments));
        messages.push({ role: "tool", tool_call_id: each.id, content });
      }
    }
  };
}

async function responded(body, streamed) {
  if (!streamed) return await client.responses.create(body);
  return await client.responses.stream(body).finalResponse();
}

function responses(streamed, whole) {
  const items = [];
  const tools = [{ type: "function", ...tax, strict: true }];
  let before;
  return async (question) => {
    let input = [{ role: "user", content: question }];
    for (;;) {
      items.push(...input);
      const about = whole ? { input: items } : { input, previous_response_id: before };
      const response = await responded({ model: "clerk", tools, ...about }, streamed);
      before = response.id;
      // What the stream's helper adds to a call is not the protocol's.
      items.push(...response.output.map(({ parsed_arguments, ...each }) => each));
      const calls = response.output.filter((each) => each.type === "function_call");
      if (!calls.length) return response.output.at(-1).content.map((each) => each.text).join("");
      input = calls.map(({ call_id, arguments: its }) => {
        return { type: "function_call_output", call_id, output: taxed(JSON.parse(its)) };
      });
    }
  };
}

await play((way, streamed) => {
  return way === "chat" ? chat(streamed) : responses(streamed, way === "items");
});
