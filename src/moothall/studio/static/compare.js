// Two runs beside each other: what each cost, their steps in rows, and the first difference.

import { button, call, cost, count, duration, empty, h, number, replace, stateBadge } from "./dom.js";
import { go } from "./place.js";
import { called, given, outcome } from "./values.js";

const NAMES = { model: "model", tool: "tool" };
const figures = (t) => [["time", duration(t.seconds)], ["tokens", number(t.tokens)], ["cost", cost(t)], ["model calls", number(t.model_calls)], ["tool calls", number(t.tool_calls)], ["errors", number(t.errors)]];

function step(run, each) {
  if (!each) return h("td", { class: "s-none" }, "–");
  return h("td", {},
    h("div", { class: "s-row" }, h("span", { class: `s-type ${each.kind}` }, NAMES[each.kind]), h("b", { class: "s-action" }, each.name), h("span", { class: "s-soft" }, [each.seconds === null ? null : duration(each.seconds), each.spent?.tokens ? count(each.spent.tokens, "token") : null].filter(Boolean).join(" · ")),
      h("span", { class: "s-spacer" }), h("button", { type: "button", class: "s-link", onclick: () => go(["runs", run, each.sequence]) }, `entry ${each.sequence}`)),
    each.given && each.given !== "{}" ? h("div", { class: "s-given-to" }, given(each.given)) : null,
    each.fault ? h("p", { class: "s-fault" }, each.fault) : each.said ? (each.kind === "tool" ? given : outcome)(each.said) : null, each.calls.map(([name, args]) => called(name, args)));
}

// Show the comparison of a run with another in a place.
export async function showComparison(root, run, other) {
  replace(root, empty("Comparing …"));
  const { rows, first, cut, totals, runs } = await call(`runs/compare?run=${encodeURIComponent(run)}&other=${encodeURIComponent(other)}`);
  const [mine, theirs] = totals.map(figures);
  const head = runs.map((each) => h("th", {}, h("div", {}, stateBadge(each.state), " ", h("button", { type: "button", class: "s-link", onclick: () => go(["runs", each.id]) }, each.task.slice(0, 80) || "(no task)")), h("code", { class: "s-soft" }, each.id)));
  const body = rows.map(([one, two, same], at) => h("tr", { class: same ? "same" : at === first ? "first" : "differs", id: at === first ? "first-difference" : null },
    h("th", { scope: "row" }, at + 1, at === first ? h("span", { class: "s-badge warn" }, "first difference") : null), step(run, one), step(other, two)));
  replace(root, h("section", { class: "s-compare", "aria-label": "Comparison" },
    h("div", { class: "s-row" }, h("h2", {}, "Two runs compared"), h("span", { class: "s-spacer" }),
      first === null ? h("span", { class: "s-badge good" }, "all steps are the same") : button("Go to the first difference", () => root.querySelector("#first-difference").scrollIntoView({ block: "center" })),
      button("Close", () => go(["runs", run]), "quiet")),
    h("table", { class: "s-table s-sums" }, h("thead", {}, h("tr", {}, h("td", {}), head)),
      h("tbody", {}, mine.map(([name, value], at) => h("tr", { class: value === theirs[at][1] ? "same" : "differs" }, h("th", { scope: "row" }, name), h("td", {}, value), h("td", {}, theirs[at][1]))))),
    cut ? h("p", { class: "s-soft" }, "Only the first 2,000 steps of each are compared.") : null,
    rows.length ? h("table", { class: "s-table s-pairs" }, h("tbody", {}, body)) : empty("Neither run has called a model or an action.")));
}
