// A turn of an MCP client, over a function that connects: see `say_and_order.py`.
export function sayAndOrder(connect, sessions) {
  let client;
  let thread;

  async function called(name, args) {
    if (!client) client = await connect();
    try {
      return await client.callTool({ name, arguments: args });
    } catch (error) {
      if (!sessions || !/session/i.test(error.message)) throw error;
      client = await connect();
      return await client.callTool({ name, arguments: args });
    }
  }

  return async (question) => {
    const said = await called("say", { content: question, ...(thread && { thread }) });
    if (said.isError) throw new Error(said.content[0].text);
    thread = said._meta?.thread ?? thread;
    const item = /cost/.test(question) && question.split(" ").at(-2);
    if (item) {
      const ordered = await called("order", { item });
      if (ordered.structuredContent?.result !== `ordered ${item}`) throw new Error(JSON.stringify(ordered));
    }
    return said.structuredContent.result;
  };
}
