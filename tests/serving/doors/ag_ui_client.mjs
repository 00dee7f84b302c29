// Runs an agent by the protocol's own client, and prints what came of it as JSON.
import { HttpAgent } from "@ag-ui/client";

const [url, token] = process.argv.slice(2);
const paint = {
  name: "paint",
  description: "Paint the page.",
  parameters: { type: "object", properties: { colour: { type: "string" } } },
};

function agent(thread, secret = token) {
  const headers = { Authorization: `Bearer ${secret}` };
  return new HttpAgent({ url: `${url}/ag-ui`, threadId: thread, headers });
}

let number = 0;

async function run(made, text, parameters = {}) {
  const events = [];
  if (text) made.addMessage({ id: `m${++number}`, role: "user", content: text });
  let failed = "";
  try {
    await made.runAgent(
      { runId: `r${++number}`, ...parameters },
      { onEvent: ({ event }) => void events.push(event.type) },
    );
  } catch (error) {
    failed = String(error.message ?? error);
  }
  const last = made.messages.at(-1);
  const said = { role: last?.role, content: last?.content, failed };
  return { ...said, events, interrupts: made.pendingInterrupts.map((each) => each.metadata) };
}

const told = {};
const first = agent("hello");
told.text = await run(first, "hello");
told.again = await run(first, "again");

const page = agent("paint");
told.tool = await run(page, "paint", { tools: [paint] });
const call = page.messages.findLast((each) => each.toolCalls)?.toolCalls[0];
told.call = call?.function;
page.addMessage({ id: "t", role: "tool", toolCallId: call?.id, content: "painted" });
told.result = await run(page, "", { tools: [paint] });

const long = agent("turns");
told.turns = [];
told.ids = [];
for (const turn of [1, 2, 3]) {
  told.turns.push(await run(long, "paint", { tools: [paint] }));
  const id = long.messages.findLast((each) => each.toolCalls)?.toolCalls[0].id;
  told.ids.push(id);
  const result = { role: "tool", toolCallId: id, content: "painted" };
  long.addMessage({ id: `t${turn}`, ...result });
  long.addMessage({ id: `again${turn}`, ...result });
  told.turns.push(await run(long, "", { tools: [paint] }));
}

const shop = agent("buy");
told.asked = await run(shop, "buy");
const [wanted] = shop.pendingInterrupts;
const answer = (id) => ({
  resume: [{ interruptId: id, status: "resolved", payload: { approved: true } }],
});
const forger = agent("buy");
forger.pendingInterrupts = [{ ...wanted, id: `${wanted.id}x` }];
told.forged = await run(forger, "", answer(`${wanted.id}x`));
const other = agent("elsewhere");
other.pendingInterrupts = [wanted];
told.elsewhere = await run(other, "", answer(wanted.id));
told.bought = await run(shop, "", answer(wanted.id));
shop.pendingInterrupts = [wanted];
told.twice = await run(shop, "", answer(wanted.id));

told.poor = await run(agent("poor", "t-poor"), "hello");
process.stdout.write(JSON.stringify(told));
