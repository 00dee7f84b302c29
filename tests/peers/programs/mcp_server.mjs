// `@modelcontextprotocol/server`: both revisions, as its own handler serves them.
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { McpServer, createMcpHandler } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";
import { offer } from "./shop.mjs";

function shop() {
  const server = new McpServer({ name: "shop", version: "1" });
  offer(server, z);
  return server;
}

if (process.argv[2] === "stdio") await shop().connect(new StdioServerTransport());
else createServer(toNodeHandler(createMcpHandler(shop))).listen({ fd: 0 });
