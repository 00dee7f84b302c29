// `@a2a-js/sdk` as a server: see `a2a_server.py`.
import { appendFileSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler } from "@a2a-js/sdk/server/express";
import express from "express";

const [mode, folder] = process.argv.slice(2);
const executor = {
  async execute({ userMessage, taskId, contextId }, bus) {
    const about = { id: taskId, contextId, artifacts: [], history: [userMessage], metadata: undefined };
    const status = { state: TaskState.TASK_STATE_WORKING, message: undefined, timestamp: undefined };
    bus.publish(AgentEvent.task({ ...about, status }));
    const file = `${folder}/${contextId.replace(/\W/g, "-")}`;
    appendFileSync(file, `${userMessage.parts[0].content.value}\n`);
    const value = readFileSync(file, "utf8").trim().split("\n").join(" ");
    const part = { content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "" };
    const artifact = { artifactId: "a", name: "", description: "", parts: [part], extensions: [] };
    const update = { taskId, contextId, artifact, append: false, lastChunk: true };
    bus.publish(AgentEvent.artifactUpdate(update));
    const state = TaskState.TASK_STATE_COMPLETED;
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: { ...status, state } }));
    bus.finished();
  },
  async cancelTask() {},
};
const card = {
  name: "clerk",
  description: "a clerk",
  version: "1",
  supportedInterfaces: [
    { url: "/rpc", protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" },
  ],
  capabilities: { streaming: mode === "stream", extensions: [] },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [],
  signatures: [],
};
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
const userBuilder = UserBuilder.noAuthentication;
const app = express();
const agentCardProvider = requestHandler;
app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider }));
app.use("/rpc", jsonRpcHandler({ requestHandler, userBuilder }));
createServer(app).listen({ fd: 0 });
