// Runs beside each other: two, with what each cost, their steps in rows and the first difference; and the cases of an evaluation in its conditions.

import { button, call, cost, count, duration, empty, h, number, replace, stateBadge } from "./dom.js";
import { go } from "./place.js";
import { called, given, outcome } from "./values.js";

const SAID = 600; // characters of what was given or came of it
const CALLS = 50; // of an answer
const short = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value)).slice(0, SAID);
const figures = (t) => [["time", duration(t.seconds)], ["tokens", number(t.tokens)], ["cost", cost(t)], ["model calls", number(t.model_calls)], ["tool calls", number(t.tool_calls)], ["errors", number(t.errors)]];

function step(run, each) {
  if (!each) return h("td", { class: "s-none" }, "–");
  const { data: { about }, result, sequence, began, at, spent, fault } = each;
  const isTool = "action" in about, said = isTool ? result : result?.text ?? (typeof result === "string" ? result : null);
  return h("td", {},
    h("div", { class: "s-row" }, h("span", { class: `s-type ${isTool ? "tool" : "model"}` }, isTool ? "tool" : "model"), h("b", { class: "s-action" }, String(about.action ?? about.model)), h("span", { class: "s-soft" }, [began === null ? null : duration(Math.max(0, at - began)), spent?.tokens ? count(spent.tokens, "token") : null].filter(Boolean).join(" · ")),
      h("span", { class: "s-spacer" }), h("button", { type: "button", class: "s-link", onclick: () => go(["runs", run, sequence]) }, `entry ${sequence}`)),
    isTool && each.args && short(each.args) !== "{}" ? h("div", { class: "s-given-to" }, given(short(each.args))) : null,
    fault ? h("p", { class: "s-fault" }, fault) : said ? (isTool ? given : outcome)(short(said)) : null,
    isTool || !Array.isArray(result?.calls) ? null : result.calls.slice(0, CALLS).map(({ name, args }) => called(String(name), short(args))));
}

// Show the comparison of a run with another in a place.
export async function showComparison(root, run, other) {
  replace(root, empty("Comparing …"));
  const { rows, cut, totals, runs } = await call(`runs/compare?run=${encodeURIComponent(run)}&other=${encodeURIComponent(other)}`);
  const [mine, theirs] = totals.map(figures), first = rows.findIndex(([, , same]) => !same);
  const head = runs.map((each) => h("th", {}, h("div", {}, stateBadge(each.state), " ", h("button", { type: "button", class: "s-link", onclick: () => go(["runs", each.id]) }, each.task.slice(0, 80) || "(no task)")), h("code", { class: "s-soft" }, each.id)));
  const body = rows.map(([one, two, same], at) => h("tr", { class: same ? "same" : at === first ? "first" : "differs", id: at === first ? "first-difference" : null },
    h("th", { scope: "row" }, at + 1, at === first ? h("span", { class: "s-badge warn" }, "first difference") : null), step(run, one), step(other, two)));
  replace(root, h("section", { class: "s-compare", "aria-label": "Comparison" },
    h("div", { class: "s-row" }, h("h2", {}, "Two runs compared"), h("span", { class: "s-spacer" }),
      first < 0 ? h("span", { class: "s-badge good" }, "all steps are the same") : button("Go to the first difference", () => root.querySelector("#first-difference").scrollIntoView({ block: "center" })),
      button("Close", () => go(["runs", run]), "quiet")),
    h("table", { class: "s-table s-sums" }, h("thead", {}, h("tr", {}, h("td", {}), head)),
      h("tbody", {}, mine.map(([name, value], at) => h("tr", { class: value === theirs[at][1] ? "same" : "differs" }, h("th", { scope: "row" }, name), h("td", {}, value), h("td", {}, theirs[at][1]))))),
    cut ? h("p", { class: "s-soft" }, "Only the first 2,000 steps of each are compared.") : null,
    rows.length ? h("table", { class: "s-table s-pairs" }, h("tbody", {}, body)) : empty("Neither run has called a model or an action.")));
}

const graded = ([by, good, note]) => h("span", { class: `s-badge ${good === null ? "" : good ? "good" : "bad"}`, title: note || null }, `${by.replace(/^grader /, "")}${good === null ? `: ${short(note)}` : good ? "" : ": no"}`);
const reply = (each) => (each ? h("td", {}, h("div", { class: "s-row" }, stateBadge(each.state), each.grades.map(graded), h("span", { class: "s-spacer" }), h("button", { type: "button", class: "s-link", onclick: () => go(["runs", each.id]) }, "run")), each.calls.slice(0, CALLS).map((line) => h("div", { class: "s-given-to" }, given(short(line)))), each.text ? outcome(short(each.text)) : null) : h("td", { class: "s-none" }, "–"));

// Show the cases of an evaluation in a place, each with its replies side by side; `run` is one of them.
export async function showCases(root, run) {
  replace(root, empty("Reading …"));
  const { conditions, rows, cut } = await call("runs/cases"), differs = rows.filter(([, , same]) => !same).length;
  const pair = (cells) => cells.filter(Boolean).slice(0, 2).map((each) => each.id);
  replace(root, h("section", { class: "s-compare", "aria-label": "Cases" },
    h("div", { class: "s-row" }, h("h2", {}, "Cases compared"), h("span", { class: "s-spacer" }), h("span", { class: `s-badge ${differs ? "warn" : "good"}` }, differs ? `${number(differs)} of ${number(rows.length)} cases differ` : "all replies are the same"), button("Close", () => go(["runs", run]), "quiet")),
    cut ? h("p", { class: "s-soft" }, `Only the ${number(rows.length)} cases that were asked last are shown.`) : null,
    h("table", { class: "s-table s-pairs" }, h("thead", {}, h("tr", {}, h("td", {}), conditions.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map(([name, cells, same]) => h("tr", { class: same ? "same" : "differs" }, h("th", { scope: "row" }, name, cells.filter(Boolean).length > 1 && button("Compare", () => { const [one, two] = pair(cells); go(["runs", one, "compare", two]); }, "s-link")), cells.map(reply)))))));
}
