// The charts of a town: lines over its steps, with dashed ones of a town beside it; which of them are
// shown is a person's choice, kept in the browser.

import { h, replace } from "./dom.js";

const KEPT = "moothall-charts"; // the names of those that a person has chosen
const POINTS = 200;

const short = (at) => new Date(at).toLocaleString("en", { weekday: "short", hour: "2-digit", minute: "2-digit", hour12: false });
const say = (number) => number.toLocaleString("en", { notation: number >= 1e5 ? "compact" : "standard", maximumFractionDigits: 2 });

function svg(tag, attrs, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attrs).forEach(([key, value]) => (key === "style" ? (made.style.cssText = value) : made.setAttribute(key, value)));
  made.append(...children);
  return made;
}

const fewer = (rows) => {
  const every = Math.ceil(rows.length / POINTS);
  return rows.filter((_, i) => i % every === 0 || i === rows.length - 1);
};

// One chart: [title, unit, lines], a line being [column, label, colour, scale].
function curve([title, unit, lines], columns, rows, others) {
  const [shown, dashed] = [fewer(rows), fewer(others)];
  const both = [...shown, ...dashed];
  const [from, to] = [Math.min(...both.map((row) => row[0])), Math.max(...both.map((row) => row[0]))];
  const scales = Object.fromEntries(lines.map(([key, , , scale]) => [key, scale]));
  const value = (row, key) => row[columns.indexOf(key)] / scales[key];
  const most = Math.max(1, ...lines.flatMap(([key]) => both.map((row) => value(row, key))));
  const points = (of, key) => of.map((row) => `${(100 * (row[0] - from)) / Math.max(1, to - from)},${50 - (48 * value(row, key)) / most}`).join(" ");
  const drawn = (of, dashes) => (of.length ? lines.map(([key, , colour]) => svg("polyline", { points: points(of, key), style: `stroke: var(--s-act-${colour})`, "stroke-dasharray": dashes })) : []);
  const now = (key) => `${say(value(rows.at(-1), key))}${others.length ? ` · ${say(value(others.at(-1), key))}` : ""}`;
  const ends = both.map((row) => row[1]).sort();
  return h("figure", { "aria-label": `${title}: ${lines.map(([key, label]) => `${label} ${now(key)}`).join(", ")}` },
    h("figcaption", {}, h("b", {}, title), lines.map(([key, label, colour]) => h("span", {}, h("i", { style: `background: var(--s-act-${colour})` }), `${label} ${now(key)}`)), unit ? h("span", { class: "s-soft" }, unit) : null),
    h("div", { class: "s-axes" }, h("small", {}, say(most)), h("small", {}, "0"),
      svg("svg", { viewBox: "0 0 100 50", preserveAspectRatio: "none", "aria-hidden": true }, ...drawn(dashed, "3 3"), ...drawn(shown, "none"))),
    h("div", { class: "s-ends" }, h("small", {}, short(ends[0])), h("small", {}, short(ends.at(-1)))));
}

// All charts by their name: those of more lines, and each metric by itself.
function allOf(head) {
  const alone = head.metrics.filter(([name]) => !head.charts.some(([, , lines]) => lines.length === 1 && lines[0][0] === name));
  return new Map([...head.charts.map((each) => [each[0], each]), ...alone.map(([name, label, scale]) => [label.replaceAll("_", " "), [label.replaceAll("_", " "), "", [[name, "", "work", scale]]]])]);
}

export function makeCurves() {
  const curves = h("div", { class: "s-curves" });
  const picks = h("div", { class: "s-row s-picks" });

  // Draw the rows of the town that `head` describes, and those of the one beside it.
  function draw(head, rows, others) {
    if (!head.metrics || !rows.length) return; // the next town is being made
    const all = allOf(head);
    const kept = JSON.parse(localStorage.getItem(KEPT) || "null") || head.charts.filter(([, , lines]) => head.model || lines[0][0] !== "fallbacks").map((each) => each[0]).filter((name) => name !== "All money"); // rules alone have no fallbacks; money only changes hands
    replace(curves, kept.filter((each) => all.has(each)).map((each) => curve(all.get(each), head.columns, rows, others)));
    if (picks.childElementCount === all.size) return;
    const choose = () => {
      localStorage.setItem(KEPT, JSON.stringify([...picks.querySelectorAll("input:checked")].map((each) => each.value)));
      again();
    };
    replace(picks, [...all.keys()].map((each) => h("label", {}, h("input", { type: "checkbox", value: each, checked: kept.includes(each), onchange: choose }), " ", each)));
  }

  let drawn = null;
  const again = () => drawn && draw(...drawn);
  return {
    root: h("div", {}, h("details", { class: "s-charting" }, h("summary", {}, "Choose charts"), picks), curves),
    draw: (...all) => draw(...(drawn = all)),
    clear: () => replace(curves),
  };
}
