// A run over time: a bar for each call of a model or an action and each wait, in a row for each part.

import { button, clock, dollars, duration, empty, h, number, replace } from "./dom.js";

const ROWS = 300; // bars at once

// Draw the steps (of `shownRun`: type, text, first and last entry) of the run of an agent between two times.
export function showTimeline(root, steps, agent, open, most = ROWS) {
  const all = steps.filter((each) => each.from && ["model", "tool", "person", "step"].includes(each.type));
  if (!all.length) return void replace(root, empty("There is no step with a time yet."));
  const start = Math.min(...all.map((each) => each.from));
  const end = Math.max(...all.map((each) => each.to || each.from), start + 0.001);
  const share = (at) => `${(100 * (at - start)) / (end - start)}%`;
  const shown = all.slice(0, most);
  let part = null;
  const rows = shown.map((each) => {
    const to = each.to || end;
    const width = Math.max(0.3, (100 * (to - each.from)) / (end - start));
    const head = each.part !== part ? h("div", { class: "s-line-part" }, each.part || agent) : null;
    part = each.part;
    const cost = each.spent?.tokens ? ` · ${number(each.spent.tokens)} tokens${each.spent.usd ? ` · ${dollars(each.spent.usd)}` : ""}` : "";
    return [head, h("button", { type: "button", class: `s-line-row ${each.type} ${each.bad ? "bad" : ""} ${each.to ? "" : "open"}`, onclick: () => open(each.sequence), title: `${each.name.slice(0, 200)}: ${clock(each.from)}, ${duration(to - each.from)}${cost}` },
      h("span", { class: "s-one" }, h("span", { class: `s-type ${each.type}` }, each.type), " ", each.name),
      h("span", { class: "s-bar" }, h("i", { style: `left: ${share(each.from)}; width: ${width}%` })),
      h("span", { class: "number" }, each.to ? duration(to - each.from) : "…"))];
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => h("span", {}, duration(part * (end - start))));
  replace(root, h("section", { class: "s-timeline", "aria-label": "Timeline" },
    h("div", { class: "s-line-row s-ticks", "aria-hidden": "true" }, h("span", {}), h("span", { class: "s-ticks-of" }, ticks), h("span", {})), rows,
    all.length > most ? h("p", { class: "s-soft" }, `The first ${number(most)} of ${number(all.length)} steps are drawn. `, button(`Draw ${number(Math.min(ROWS, all.length - most))} more`, () => showTimeline(root, steps, agent, open, most + ROWS), "quiet")) : null));
}
