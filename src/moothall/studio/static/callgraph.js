// Who calls whom in a run: its agents, and the actions and models that they call, as a graph and as a table.

import { count, duration, empty, h, modelName, number, replace, svg } from "./dom.js";

const [TALL, GAP] = [40, 14]; // pixels: a box, and between two of a column
const MOST = 40; // boxes of a column
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const figures = ({ calls, seconds, errors }) => `${count(calls, "call")}, ${duration(seconds)}${errors ? `, ${count(errors, "error")}` : ""}`;

// The calls of a run's steps, as `{ from, to, kind, calls, seconds, errors, sequence }`: `from` and `to` are keys of
// boxes, `sequence` is the first entry. `tree` is a step tree, `agent` the run's own.
export function callsOf(tree, agent) {
  const calls = new Map();
  const caller = (path) => tree.agentOf(path) || (path && tree.agentOf(path.split("/").slice(0, -1).join("/"))) || agent;
  const add = (from, kind, name, first, last) => {
    const key = `${from}\n${kind}\n${name}`;
    if (!calls.has(key)) calls.set(key, { from: `agent\n${from}`, to: `${kind}\n${name}`, kind, calls: 0, seconds: 0, errors: 0, sequence: first.sequence });
    const its = calls.get(key);
    its.calls++;
    its.seconds += Math.max(0, last.at - first.at);
    its.errors += Boolean(last.fault);
  };
  const all = [...tree.kept.values()], parts = all.filter((each) => each.part);
  const isAgent = ({ path, data }) => parts.some((each) => each.path === path && each.data.part.startsWith(`${data.key}/`));
  for (const { entries } of tree.rows) {
    const [first, last] = [entries[0], entries.at(-1)], { action, model } = first.data.about || {};
    if (!["started", "ended", "failed"].includes(first.kind) || isAgent(first)) continue;
    if (action) add(caller(first.path), "action", action, first, last);
    else if (model) add(caller(first.path), "model", modelName(model), first, last);
  }
  for (const entry of parts) {
    const its = all.filter((each) => each.path === entry.part);
    add(caller(entry.path), "agent", entry.data.agent, entry, its.at(-1) || entry);
  }
  return [...calls.values()];
}

// The boxes by column: an agent stands right of the first that calls it, actions and models right of all agents.
function columnsOf(calls, agent) {
  const level = new Map([[`agent\n${agent}`, 0]]);
  for (let isNew = true; isNew;) {
    isNew = false;
    for (const { from, to, kind } of calls) {
      if (kind !== "agent" || level.has(to) || !level.has(from)) continue;
      level.set(to, level.get(from) + 1);
      isNew = true;
    }
  }
  for (const { from } of calls) if (!level.has(from)) level.set(from, 0);
  const last = Math.max(...level.values()) + 1;
  for (const { to } of calls) if (!level.has(to)) level.set(to, last);
  const columns = [...Array(last + 1)].map(() => []);
  for (const [key, at] of level) columns[at].push(key);
  return columns.filter((each) => each.length);
}

// Draw the calls; `open(sequence)` opens a step.
export function drawCalls(root, tree, agent, open) {
  const calls = callsOf(tree, agent).sort((one, two) => two.calls - one.calls);
  if (!calls.length) return void replace(root, empty("Nothing was called yet."));
  const columns = columnsOf(calls, agent).map((each) => each.slice(0, MOST)), isNarrow = innerWidth < 760;
  const between = isNarrow ? 20 : 150; // pixels, between columns
  const wide = isNarrow ? Math.max(96, (root.clientWidth - 10 + between) / columns.length - between) : 190; // a box
  const tall = Math.max(...columns.map((each) => each.length)) * (TALL + GAP) - GAP;
  const place = new Map(columns.flatMap((keys, column) => keys.map((key, row) =>
    [key, [column * (wide + between) + 1, (tall - keys.length * (TALL + GAP) + GAP) / 2 + row * (TALL + GAP) + 1]])));
  const drawn = calls.filter(({ from, to }) => from !== to && place.has(from) && place.has(to));
  const lines = drawn.map(({ from, to, calls: many, seconds, errors }) => {
    const [[x1, y1], [x2, y2]] = [place.get(from), place.get(to)], forth = x2 > x1;
    const [start, end] = [[forth ? x1 + wide : x1 + wide / 2, y1 + TALL / 2], [forth ? x2 : x2 + wide / 2, y2 + TALL / 2]];
    const bend = (end[0] - start[0]) / 2;
    return [svg("path", { d: `M ${start} C ${start[0] + bend} ${start[1]} ${end[0] - bend} ${end[1]} ${end}`, "stroke-width": Math.min(8, 1 + Math.log2(many)), class: errors ? "bad" : "" }),
      isNarrow ? "" : svg("text", { x: end[0] - (forth ? 8 : 0), y: end[1] - 6, "text-anchor": "end", class: "s-call" }, `${number(many)} × ${duration(seconds / many)}`)];
  });
  const boxes = [...place].map(([key, [x, y]]) => {
    const [kind, name] = key.split("\n"), its = calls.filter((each) => each.to === key);
    const sum = (what) => its.reduce((total, each) => total + each[what], 0);
    const said = its.length ? figures({ calls: sum("calls"), seconds: sum("seconds"), errors: sum("errors") }) : "its own run";
    const shows = its.length && { tabindex: 0, role: "button", "aria-label": `${kind} ${name}: ${said}. Open its first step` };
    const box = svg("g", { class: `s-box ${kind}`, transform: `translate(${x} ${y})`, ...(shows || {}) }, svg("title", {}, `${name}: ${said}`),
      svg("rect", { width: wide, height: TALL, rx: 6 }), svg("text", { x: 10, y: 17, class: "s-name" }, short(name, wide / 9)), svg("text", { x: 10, y: 32, class: "s-call" }, short(isNarrow ? said : `${kind} · ${said}`, wide / 6)));
    if (shows) {
      const go = () => open(Math.min(...its.map((each) => each.sequence)));
      box.addEventListener("click", go);
      box.addEventListener("keydown", (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); go(); } });
    }
    return box;
  });
  const all = columns.length * (wide + between) - between + 2;
  const name = (key) => key.split("\n")[1];
  replace(root, h("figure", { class: "s-graph", "aria-label": "Who calls whom" },
    h("div", { class: "s-graph-room", tabindex: 0, role: "region", "aria-label": "Graph of calls" }, svg("svg", { viewBox: `0 0 ${all} ${tall + 2}`, width: all, height: tall + 2, role: "group", "aria-label": `Boxes: ${place.size}; the table below has all calls` }, ...lines.flat(), ...boxes)),
    h("details", {}, h("summary", { class: "s-soft" }, "As a table"), h("div", { class: "s-graph-room", tabindex: 0, role: "region", "aria-label": "Table of calls" }, h("table", { class: "s-table" },
      h("thead", {}, h("tr", {}, ["Who", "calls", "what it is"].map((each) => h("th", {}, each)), ["Calls", "Time", "Errors"].map((each) => h("th", { class: "number" }, each)))),
      h("tbody", {}, calls.map((each) => h("tr", {}, h("th", { scope: "row" }, name(each.from)), h("td", {}, h("button", { type: "button", class: "s-link", onclick: () => open(each.sequence) }, name(each.to))), h("td", {}, each.kind),
        h("td", { class: "number" }, number(each.calls)), h("td", { class: "number" }, duration(each.seconds)), h("td", { class: "number" }, each.errors || "")))))))));
}
