import { HttpAgent } from "@ag-ui/client";
import { play, tax, taxed, url } from "./play.mjs";

let number = 0;

await play((way, streamed) => {
  const agent = new HttpAgent({ url: `${url}/ag-ui`, threadId: `thread-${way}` });
  return async (question) => {
    agent.addMessage({ id: `m${++number}`, role: "user", content: question });
    for (;;) {
      let failed;
      const onRunErrorEvent = ({ event }) => void (failed = event.message);
      await agent.runAgent({ runId: `r${++number}`, tools: [tax] }, { onRunErrorEvent });
      if (failed) throw new Error(failed);
      const done = new Set(agent.messages.map((each) => each.toolCallId));
      const calls = agent.messages.flatMap((each) => each.toolCalls ?? []);
      const own = calls.filter(({ id }) => !done.has(id));
      if (!own.length) return agent.messages.at(-1).content;
      for (const { id, function: its } of own) {
        const content = taxed(JSON.parse(its.arguments));
        agent.addMessage({ id: `m${++number}`, role: "tool", toolCallId: id, content });
      }
    }
  };
});
