import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { z } from "zod";
import { play, tax, taxed, url } from "./play.mjs";

const parameters = z.object({ price: z.number().int() });
const execute = async (its) => taxed(its);
const own = tool({ name: "tax", description: tax.description, parameters, execute });
const agent = new Agent({ name: "visitor", model: "clerk", tools: [own] });

await play((way, streamed) => {
  const about = { baseURL: `${url}/v1`, apiKey: "none", useResponses: way !== "chat" };
  const runner = new Runner({ modelProvider: new OpenAIProvider(about), tracingDisabled: true });
  let history = [];
  let previousResponseId;
  return async (question) => {
    const user = { role: "user", content: question };
    const given = way === "responses" ? [user] : [...history, user];
    const options = way === "responses" ? { previousResponseId } : {};
    const result = await runner.run(agent, given, { ...options, stream: streamed });
    if (streamed) {
      for await (const _ of result);
      await result.completed;
    }
    history = result.history;
    previousResponseId = result.lastResponseId;
    return result.finalOutput;
  };
});
