// The tab Doors: MCP servers and remote agents that are connected, what of them is locked and has
// changed, and what this program serves to whom.

import { attempt, button, call, count, empty, h, number, oneAtATime, toast, update } from "./dom.js";
import { onReset } from "./feed.js";

const LOOKS = 3000; // milliseconds between two looks while the tab is shown

export function mount(root) {
  const connected = h("section", { "aria-label": "Connected" });
  const served = h("section", { "aria-label": "Served" });
  root.append(h("div", { class: "s-overview" }, connected, served));

  function locked({ lock, changed = {}, gone = [], fault }) {
    const many = Object.keys(changed).length + gone.length;
    if (fault) return h("span", { class: "s-badge bad" }, "lock file is wrong");
    if (lock === undefined) return null;
    if (lock === null) return h("span", { class: "s-badge" }, "not locked");
    return h("span", { class: `s-badge ${many ? "warn" : "good"}` }, many ? `${number(many)} changed` : "locked, as accepted");
  }

  // What has changed in the tools of a server since a person accepted them.
  function difference(each) {
    const all = Object.entries(each.changed || {});
    if (!all.length && !each.gone?.length) return null;
    const accept = button("Accept these definitions", async () => {
      show(await call("doors/accept", { id: each.id, seen: each.seen }));
      toast(`The definitions of ${each.id} are accepted.`, false);
    }, "danger");
    return h("article", { class: "s-card", "aria-label": `Changed definitions of ${each.id}` }, h("p", {}, h("b", {}, each.id), " offers other tools than a person has accepted. Calls of these are asked for, whatever their policy."),
      h("dl", { class: "s-args" }, all.map(([name, said]) => [h("dt", {}, name), h("dd", {}, h("pre", {}, said))]), (each.gone || []).map((name) => [h("dt", {}, name), h("dd", {}, "is gone")])),
      h("div", { class: "s-row" }, accept));
  }

  const head = (...names) => h("thead", {}, h("tr", {}, names.map(([name, kind]) => h("th", { class: kind }, name))));
  const cell = (value) => h("td", { class: "number" }, value === undefined ? "" : number(value));

  function show({ connected: all, served: doors }) {
    update(connected, h("h2", {}, "Connected"), all.length ? h("div", { class: "s-shown" }, h("table", { class: "s-table" },
      head(["Name"], ["Kind"], ["Where"], ["State"], ["Tools", "number"], ["Calls", "number"], ["Failed", "number"], ["Definitions"]),
      h("tbody", {}, all.map((each) => h("tr", {}, h("th", { scope: "row" }, each.id, each.of && h("span", { class: "s-soft" }, ` tools of ${each.of}`)), h("td", {}, each.kind), h("td", {}, h("code", {}, each.where)),
        h("td", {}, each.connected === undefined ? null : h("span", { class: `s-badge ${each.connected ? "good" : "bad"}` }, each.connected ? "connected" : "not connected")),
        h("td", { class: "number", title: each.tools?.join(", ") }, each.tools ? number(each.tools.length) : ""), cell(each.calls), cell(each.failed), h("td", {}, locked(each), each.fault && h("p", { class: "s-fault" }, each.fault))))))) : null,
    all.length ? null : empty("No MCP server and no remote agent is connected. In your program: space.add(MCPAgent(\"files\", \"COMMAND\")), or give it to an agent in actions=[…]."),
    all.map(difference));
    update(served, h("h2", {}, "Served"), doors.length ? h("div", { class: "s-shown" }, h("table", { class: "s-table" },
      head(["Agents"], ["By"], ["Actions", "number"], ["Callers"], ["Calls", "number"], ["Under way", "number"]),
      h("tbody", {}, doors.map((each) => h("tr", {}, h("th", { scope: "row" }, each.agents.join(", ")), h("td", {}, each.talks.length ? "MCP, A2A, OpenAI, AG-UI" : "MCP"), cell(each.actions),
        h("td", {}, each.callers.join(", ")), h("td", { class: "number", title: Object.entries(each.calls).map(([name, n]) => `${name}: ${count(n, "call")}`).join(", ") }, number(Object.values(each.calls).reduce((one, two) => one + two, 0))), cell(each.under_way)))))) : null,
    doors.length ? null : empty("This program serves no agent. `moothall serve AGENT --http HOST:PORT` does, or moothall.doors.asgi in your program."));
  }

  const look = oneAtATime(async () => show(await call("doors/state")), 500, () => {}); // the header says that nobody answers
  onReset(attempt(look));
  setInterval(() => { if (root.offsetParent && !document.hidden) look(); }, LOOKS);
}
