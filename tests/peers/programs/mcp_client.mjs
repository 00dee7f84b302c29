// `@modelcontextprotocol/client`: sessions, or the revision without them.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { play, url } from "./play.mjs";
import { sayAndOrder } from "./say_and_order.mjs";

const permitted = async () => ({ action: "accept", content: { permit: true } });
const modes = { sessions: "legacy", auto: "auto", pinned: { pin: "2026-07-28" } };

await play((way) => {
  return sayAndOrder(async () => {
    const capabilities = { elicitation: {} };
    const versionNegotiation = { mode: modes[way] };
    const client = new Client({ name: "visitor", version: "1" }, { capabilities, versionNegotiation });
    client.setRequestHandler("elicitation/create", permitted);
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
    return client;
  }, way === "sessions");
});
