// The tab Doors: MCP servers and remote agents that are connected, what of them is locked and has
// changed, and what this program serves to whom.

import { attempt, button, call, clock, count, dollars, empty, h, json, number, oneAtATime, toast, update } from "./dom.js";
import { onReset } from "./feed.js";
import { findRuns } from "./journal.js";
import { onPlace } from "./place.js";

const PARTS = { description: "What it says it does", inputSchema: "Takes", outputSchema: "Gives", title: "Title", annotations: "What it hints at" };
const CALLERS = 200; // in the list at once
const LOOKS = 3000; // milliseconds between two looks while the tab is shown

// JSON whose objects have their keys in order, to be compared.
const sorted = (value) => JSON.stringify(value, (_, each) => (each && typeof each === "object" && !Array.isArray(each) ? Object.fromEntries(Object.entries(each).sort()) : each));

// A part of a definition in words: of a schema its parameters.
function said(value) {
  if (value === undefined) return "left out";
  if (value === null || typeof value !== "object") return String(value);
  const fields = Object.entries(value.properties || {});
  if (value.type !== "object") return json(value);
  return fields.map(([name, { type = "any", description }]) => `${name} (${type}${value.required?.includes(name) ? "" : ", may be left out"})${description ? `: ${description}` : ""}`).join("\n") || "nothing";
}

export function mount(root) {
  const connected = h("section", { "aria-label": "Connected" });
  const served = h("section", { "aria-label": "Served" });
  root.append(h("div", { class: "s-overview s-doors" }, connected, served));

  function locked({ lock, changed = {}, gone = [], fault }) {
    const fresh = Object.values(changed).filter(({ was }) => !was).length, many = Object.keys(changed).length - fresh + gone.length;
    if (fault) return h("span", { class: "s-badge bad" }, "lock file is wrong");
    if (lock === undefined) return null;
    if (lock === null) return h("span", { class: "s-badge" }, "not locked");
    const differs = [many && `${number(many)} changed`, fresh && `${number(fresh)} new`].filter(Boolean).join(", ");
    return h("span", { class: `s-badge ${differs ? "warn" : "good"}` }, differs || "locked, as accepted");
  }

  // What has changed in the tools of a server since a person accepted them.
  function difference(each) {
    const all = Object.entries(each.changed || {});
    if (!all.length && !each.gone?.length) return null;
    const accept = button("Accept these definitions", async () => {
      show(await call("doors/accept", { id: each.id, shown_hash: each.shown_hash }));
      toast(`The definitions of ${each.id} are accepted.`, false);
    }, "danger");
    return h("article", { class: "s-card", "aria-label": `Changed definitions of ${each.id}` }, h("p", {}, h("b", {}, each.id), " offers other tools than a person has accepted. Until you accept them, each call of these needs your approval."),
      all.map(([name, { was, now }]) => h("section", { class: "s-changed" }, h("p", {}, h("b", { class: "s-action" }, name), " ", h("span", { class: "s-badge warn" }, was ? "changed" : "new")),
        h("dl", { class: "s-args" }, [...new Set([...Object.keys(was || {}), ...Object.keys(now)])].filter((key) => key !== "name" && sorted(was?.[key]) !== sorted(now[key])).map((key) => [h("dt", {}, PARTS[key] || key),
          h("dd", {}, was?.[key] === undefined ? null : h("div", { class: "s-was" }, h("span", { class: "s-soft" }, "was "), h("s", {}, said(was[key]))), h("div", { class: "s-text" }, said(now[key])),
            was?.[key] !== undefined && said(was[key]) === said(now[key]) ? h("p", { class: "s-soft" }, "It differs in what only the exact definition shows.") : null)])),
        h("details", {}, h("summary", { class: "s-soft" }, "The definition, exactly"), was ? [h("p", { class: "s-soft" }, "accepted"), h("pre", {}, json(was)), h("p", { class: "s-soft" }, "now")] : null, h("pre", {}, json(now))))),
      (each.gone || []).map((name) => h("section", { class: "s-changed" }, h("p", {}, h("b", { class: "s-action" }, name), " ", h("span", { class: "s-badge warn" }, "gone")))),
      h("div", { class: "s-row" }, accept));
  }

  // A table whose rows stand below each other in a narrow window, each part with its name.
  function table(columns, rows) {
    return h("div", { class: "s-shown" }, h("table", { class: "s-table s-rows" }, h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", { class: kind }, name)))),
      h("tbody", {}, rows.map(([first, ...others]) => h("tr", {}, h("th", { scope: "row" }, first), others.map((each, at) => h("td", { class: columns[at + 1][1], "data-name": columns[at + 1][0] }, typeof each === "number" ? number(each) : each)))))));
  }
  const folded = (many, all) => (all.length ? h("details", {}, h("summary", {}, many), h("ul", { class: "s-list" }, all.map((each) => h("li", {}, each)))) : many);

  // Whether a server is connected, or how calls of a remote agent ended, which keeps no connection.
  function state({ connected: is, calls, failed }) {
    if (is !== undefined) return [h("span", { class: `s-badge ${is ? "good" : "bad"}` }, is ? "connected" : "not connected"), is ? null : h("span", { class: "s-soft" }, " the next call starts it")];
    if (!calls) return h("span", { class: "s-soft" }, "not called yet");
    return h("span", { class: `s-badge ${failed < calls ? "good" : "bad"}` }, failed < calls ? "answers" : "no call has worked");
  }
  const failure = ({ last_fault: last }) => last && h("details", {}, h("summary", {}, `failed ${clock(last[0])}: why`), h("p", { class: "s-fault s-text" }, last[1]));
  const copier = (text) => button("Copy", async () => { await navigator.clipboard.writeText(text); toast(`Copied: ${text}`, false); }, "quiet");

  // How another program calls what is served, to be pasted there.
  function examples({ agents, places, paths, callers }) {
    const at = places[0] || "http://HOST:PORT", path = new Map(paths), hasToken = !(callers.length === 1 && callers[0] === "local");
    const token = hasToken ? "Bearer TOKEN" : "", chat = { model: agents[0], messages: [{ role: "user", content: "Hello" }] };
    const made = [
      path.has("OpenAI") && ["From a shell", `curl ${at}${path.get("OpenAI")}/chat/completions ${token && `-H "Authorization: ${token}" `}-H "Content-Type: application/json" -d '${JSON.stringify(chat).replaceAll("'", "'\\''")}'`],
      path.has("MCP") && ["In the settings of an editor or chat client", JSON.stringify({ mcpServers: { [agents[0]]: { url: `${at}${path.get("MCP")}`, ...(token && { headers: { Authorization: token } }) } } })],
    ].filter(Boolean);
    return [made.map(([where, text]) => [h("p", { class: "s-soft" }, `${where} `, copier(text)), h("pre", {}, text)]),
      hasToken && h("p", { class: "s-soft" }, "TOKEN is the caller's, as your program gave it: asgi(…, token=…)."), !places.length && h("p", { class: "s-soft" }, "HOST:PORT is where your program serves it, as by uvicorn; the first request tells it here.")];
  }
  const addresses = (door) => { const { places, paths } = door; return [places.length ? places.map((each) => h("code", {}, `${each} `)) : h("span", { class: "s-soft" }, "no request yet"),
    h("details", {}, h("summary", {}, "How to call it"), h("ul", { class: "s-list s-addresses" }, paths.map(([protocol, path]) => {
      const address = `${places[0] || ""}${path}`;
      return h("li", {}, `${protocol}: `, h("code", {}, address), places.length ? copier(address) : null);
    })), examples(door))]; };
  // What each caller has called and spent, one below the other; those that have called first.
  function callersOf({ callers, calls, spending, refused }) {
    const names = [...new Set([...Object.keys(calls), ...Object.keys(spending), ...callers])], shown = names.slice(0, CALLERS);
    return h("section", { "aria-label": "Callers" }, h("h2", {}, "Callers"), table([["Caller"], ["Calls", "number"], ["Spent"], [""]], shown.map((name) => {
      const is = callers.includes(name) || name in calls;
      return [name, is ? calls[name] || 0 : null, [spending[name] ? spent(spending[name]) : h("span", { class: "s-soft" }, calls[name] ? "no budget" : "nothing"), refused[name] && h("p", { class: "s-fault" }, `is refused: ${refused[name]}`)],
        is && (calls[name] || spending[name]) ? h("button", { type: "button", class: "s-link", "aria-label": `Runs of ${name}`, onclick: () => findRuns(`-${name}`) }, "Runs") : null];
    })), names.length > shown.length ? h("p", { class: "s-soft" }, `and ${number(names.length - shown.length)} more`) : null);
  }
  const amount = (name, value, unit) => (name === "usd" ? dollars(value) : `${unit && `${unit}: `}${number(Math.round(value))}`);
  const spent = (all) => all.map(({ name, unit, spent: used, left }) => (left === null ? amount(name, used, unit) : `${amount(name, used, unit)}, ${amount(name, left, "")} left`)).join("; ") || "nothing";

  function show({ connected: all, served: doors }) {
    update(connected, h("h2", {}, "Connected"), all.length
      ? table([["Name"], ["Kind"], ["Where"], ["State"], ["Tools"], ["Calls", "number"], ["Failed", "number"], ["Definitions"]], all.map((each) => [
        [each.id, each.of && h("span", { class: "s-soft" }, ` tools of ${each.of}`)], each.kind, [h("code", {}, each.where), each.calls_itself && h("span", { class: "s-soft" }, ` which says it is ${each.calls_itself}`)],
        [state(each), failure(each)],
        each.tools ? folded(count(each.tools.length, "tool"), each.tools.map(([name, does]) => [h("b", { class: "s-action" }, name), does && h("span", { class: "s-soft" }, ` ${String(does).split("\n")[0].slice(0, 200)}`)])) : null, each.calls, each.failed, [locked(each), each.fault && h("p", { class: "s-fault" }, each.fault)]]))
      : empty("No MCP server and no remote agent is connected. In your program: space.add(MCPAgent(\"files\", \"COMMAND\")), or give it to an agent in actions=[…]."),
    all.some((each) => each.lock === null) && h("p", { class: "s-soft" }, "A server that is not locked can change what its tools say without your knowledge. ", h("code", {}, "moothall mcp lock FILE ID COMMAND"), " keeps what you accept; then pass ", h("code", {}, "lock=FILE"), "."),
    all.map(difference));
    update(served, h("h2", {}, "Served"), doors.length
      ? doors.map((each) => [table([["Agents"], ["By"], ["At"], ["Actions", "number"], ["Calls", "number"], ["Under way", "number"]], [
        [each.agents.join(", "), [...new Set(each.paths.map(([protocol]) => protocol))].join(", "), addresses(each), each.actions, Object.values(each.calls).reduce((sum, n) => sum + n, 0), each.under_way]]), callersOf(each)])
      : empty("This program serves no agent. ", h("code", {}, "moothall serve AGENT --http HOST:PORT"), " does, or ", h("code", {}, "moothall.serving.asgi"), " in your program."));
  }

  const look = oneAtATime(async () => show(await call("doors/state")), 500, () => {}); // the header says that nobody answers
  onReset(attempt(look));
  onPlace(([tab]) => { if (tab === "doors") look(); });
  setInterval(() => { if (root.offsetParent && !document.hidden) look(); }, LOOKS);
}
