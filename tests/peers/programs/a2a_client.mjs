// `@a2a-js/sdk`: a task in each turn of one context; earlier ones are looked up again.
import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";
import { play, url } from "./play.mjs";

const COMPLETED = 3;

await play((way, streamed) => {
  const factory = new ClientFactory(ClientFactoryOptions.default);
  const asked = new Map();
  let client;
  let contextId = "";
  return async (question) => {
    client ??= await factory.createFromUrl(`${url}/a2a/clerk/`);
    const parts = [{ content: { $case: "text", value: question }, filename: "", mediaType: "" }];
    const messageId = crypto.randomUUID();
    const message = { messageId, contextId, taskId: "", role: 1, parts, extensions: [], referenceTaskIds: [] };
    const request = { tenant: "", message };
    let task;
    if (streamed) {
      for await (const { payload } of client.sendMessageStream(request)) {
        if (payload.$case === "task") task = payload.value;
      }
    } else {
      task = await client.sendMessage(request);
    }
    if (contextId && task.contextId !== contextId) throw new Error(`another context: ${task.contextId}`);
    contextId = task.contextId;
    asked.set(task.id, question);
    for (const [id, text] of asked) {
      task = await client.getTask({ tenant: "", id });
      const kept = [task.contextId, task.status.state, task.history[0].parts[0].content.value];
      if (`${kept}` !== `${[contextId, COMPLETED, text]}`) throw new Error(JSON.stringify(task));
    }
    return task.artifacts.at(-1).parts.map((each) => each.content.value).join("");
  };
});
