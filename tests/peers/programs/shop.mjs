// What the servers of JavaScript share: see `serving.py`.
import { writeFileSync } from "node:fs";

if (process.argv[2] === "stdio") writeFileSync(process.argv[3], `${process.pid}`);
const prices = { lamp: 12, chair: 40 };
const text = (value) => ({ content: [{ type: "text", text: value }] });

export function offer(server, z, elicit) {
  const inputSchema = z.object({ item: z.string() });
  server.registerTool("price", { description: "Tell the price of an item.", inputSchema }, ({ item }) => {
    return text(`${item}: ${prices[item]}`);
  });
  if (!elicit) return;
  server.registerTool("order", { description: "Order an item.", inputSchema }, async ({ item }) => {
    const properties = { permit: { type: "boolean" } };
    const requestedSchema = { type: "object", properties, required: ["permit"] };
    const told = await elicit({ mode: "form", message: `Order a ${item}?`, requestedSchema });
    return text(told.action === "accept" && told.content.permit ? `ordered ${item}` : "refused");
  });
}
