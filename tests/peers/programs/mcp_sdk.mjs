// `@modelcontextprotocol/sdk`: sessions. One that has ended is begun anew, as the protocol demands.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { play, url } from "./play.mjs";
import { sayAndOrder } from "./say_and_order.mjs";

const permitted = async () => ({ action: "accept", content: { permit: true } });

await play(() => {
  return sayAndOrder(async () => {
    const about = { name: "visitor", version: "1" };
    const client = new Client(about, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, permitted);
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
    return client;
  }, true);
});
