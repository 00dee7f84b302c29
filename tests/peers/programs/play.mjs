// What the programs of JavaScript share: see `play.py`.
import { createInterface } from "node:readline";

export const url = process.argv[2];
export const tax = {
  name: "tax",
  description: "Tell the tax on a price.",
  parameters: {
    type: "object",
    properties: { price: { type: "integer" } },
    required: ["price"],
    additionalProperties: false,
  },
};

export function taxed({ price }) {
  return `the tax on ${price} is ${price / 4}`;
}

export async function play(begin) {
  const begun = new Map();
  for await (const line of createInterface({ input: process.stdin })) {
    const { mode, question } = JSON.parse(line);
    let told;
    try {
      const [way, streamed] = [mode.replace(/-stream$/, ""), mode.endsWith("-stream")];
      if (!begun.has(mode)) begun.set(mode, await begin(way, streamed));
      told = { text: await begun.get(mode)(question) };
    } catch (error) {
      const cause = error?.cause ? `\n${error.cause.stack ?? error.cause}` : "";
      told = { error: `${error?.stack ?? error}${cause}` };
    }
    process.stdout.write(`${JSON.stringify(told)}\n`);
  }
  process.exit(0);
}
