// `@modelcontextprotocol/sdk` as a server: over HTTP it has sessions, which end with its process.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { offer } from "./shop.mjs";

function shop() {
  const server = new McpServer({ name: "shop", version: "1" });
  offer(server, z, (params) => server.server.elicitInput(params));
  return server;
}

// As the SDK's own example does it, with its words for a session that it does not know.
const sessions = new Map();
async function answer(request, response) {
  const id = request.headers["mcp-session-id"];
  let body = "";
  for await (const piece of request) body += piece;
  const message = body && JSON.parse(body);
  let transport = sessions.get(id);
  if (!transport && (id || message.method !== "initialize")) {
    const status = id ? 404 : 400;
    const text = id ? "Session not found" : "Bad Request: No valid session ID provided";
    const error = { jsonrpc: "2.0", error: { code: id ? -32001 : -32000, message: text }, id: null };
    response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(error));
    return;
  }
  if (!transport) {
    const onsessioninitialized = (made) => void sessions.set(made, transport);
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
    await shop().connect(transport);
  }
  await transport.handleRequest(request, response, message || undefined);
}

if (process.argv[2] === "stdio") await shop().connect(new StdioServerTransport());
else createServer(answer).listen({ fd: 0 });
