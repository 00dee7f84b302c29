import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { play, tax, taxed, url } from "./play.mjs";

const baseURL = `${url}/v1`;
const openai = createOpenAI({ baseURL, apiKey: "none" });
const compatible = createOpenAICompatible({ name: "hall", baseURL, apiKey: "none" });
const models = {
  chat: openai.chat("clerk"),
  responses: openai("clerk"),
  compatible: compatible("clerk"),
};
const inputSchema = z.object({ price: z.number().int() });
const execute = async (its) => taxed(its);
const tools = { tax: tool({ description: tax.description, inputSchema, execute }) };

await play((way, streamed) => {
  const messages = [];
  return async (question) => {
    messages.push({ role: "user", content: question });
    let failed;
    const onError = ({ error }) => void (failed = error);
    const about = { model: models[way], messages, tools, maxRetries: 0, stopWhen: stepCountIs(5) };
    const result = streamed ? streamText({ ...about, onError }) : await generateText(about);
    if (streamed) await result.consumeStream();
    if (failed) throw failed;
    messages.push(...(await result.response).messages);
    return await result.text;
  };
});
