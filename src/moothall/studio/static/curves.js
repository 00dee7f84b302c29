// The charts of a town: lines over its steps, with dashed ones of a town beside it; which of them are
// shown is a person's choice, kept in the browser.

import { h, keyed, replace, svg } from "./dom.js";
import { GROUPS, GROUP_OF, NAMES } from "./map.js";

const KEPT = "moothall-charts"; // the names of those that a person has chosen
const POINTS = 200;

const short = (at) => new Date(at).toLocaleString("en", { weekday: "short", hour: "2-digit", minute: "2-digit", hour12: false });
const say = (number) => number.toLocaleString("en", { notation: number >= 1e5 ? "compact" : "standard", maximumFractionDigits: 2 });

const fewer = (rows) => {
  const every = Math.ceil(rows.length / POINTS);
  return rows.filter((_, i) => i % every === 0 || i === rows.length - 1);
};

// One chart: [title, unit, lines, isStacked], a line being [columns, label, colour, scale]; its value is
// the sum of its columns.
function curve([title, unit, lines, isStacked], columns, rows, others) {
  const place = new Map(columns.map((each, at) => [each, at]));
  const value = (row, [keys, , , scale]) => [keys].flat().reduce((sum, key) => sum + row[place.get(key)], 0) / scale;
  const known = (all) => all.filter((row) => [lines[0][0]].flat().every((key) => row[place.get(key)] !== null)); // what people did is not recorded
  const [shown, dashed] = [fewer(known(rows)), fewer(known(others))];
  const both = [...shown, ...dashed];
  if (!shown.length) return null;
  const [from, to] = [Math.min(...both.map((row) => row[0])), Math.max(...both.map((row) => row[0]))];
  const heights = (row) => { // of the line of each, from the bottom
    let sum = 0;
    return lines.map((line) => (sum = value(row, line) + (isStacked ? sum : 0)));
  };
  const most = Math.max(1, ...both.flatMap(heights));
  const corners = (of, at) => of.map((row) => `${(100 * (row[0] - from)) / Math.max(1, to - from)},${50 - (48 * (at < 0 ? 0 : heights(row)[at])) / most}`);
  const line = (of, at, dashes) => svg("polyline", { points: corners(of, at).join(" "), style: `stroke: var(--s-act-${lines[at][2]})`, "stroke-dasharray": dashes });
  const area = (of, at) => svg("polygon", { points: [...corners(of, at), ...corners(of, at - 1).reverse()].join(" "), style: `fill: var(--s-act-${lines[at][2]})` });
  const drawn = (of, draw, ...more) => (of.length ? lines.map((_, at) => draw(of, at, ...more)) : []);
  const now = (line) => `${say(value(shown.at(-1), line))}${dashed.length ? ` · ${say(value(dashed.at(-1), line))}` : ""}`;
  const ends = both.map((row) => row[1]).sort();
  return h("figure", { class: isStacked ? "s-stacked" : null, "aria-label": `${title}: ${lines.map((line) => `${line[1]} ${now(line)}`).join(", ")}` },
    h("figcaption", {}, h("b", {}, title), lines.map((line) => h("span", {}, h("i", { style: `background: var(--s-act-${line[2]})` }), `${line[1]} ${now(line)}`)), unit ? h("span", { class: "s-soft" }, unit) : null),
    h("div", { class: "s-axes" }, h("small", {}, say(most)), h("small", {}, "0"),
      svg("svg", { viewBox: "0 0 100 50", preserveAspectRatio: "none", "aria-hidden": true }, ...(isStacked ? drawn(shown, area) : drawn(shown, line, "none")), ...drawn(dashed, line, "3 3"))),
    h("div", { class: "s-ends" }, h("small", {}, short(ends[0])), h("small", {}, short(ends.at(-1)))));
}

// All charts by their name: those of more lines, and each metric by itself.
function allOf(head) {
  const alone = head.metrics.filter(([name]) => !head.charts.some(([, , lines]) => lines.length === 1 && lines[0][0] === name));
  const does = GROUPS.map((group, at) => [head.acts.filter((act) => (GROUP_OF[act] ?? GROUPS.length - 1) === at).map((act) => `act.${act}`), NAMES[group], group, 1]);
  return new Map([["What citizens do", ["What citizens do", "citizens", does, true]], ...head.charts.map((each) => [each[0], each]), ...alone.map(([name, label, scale]) => [titled(label), [titled(label), "", [[name, "", "work", scale]]]])]);
}

const titled = (name) => name.replaceAll("_", " ");

export function makeCurves() {
  const curves = h("div", { class: "s-curves" });
  const down = h("button", { type: "button", class: "s-link", onclick: () => curves.scrollIntoView({ block: "end" }) }, "Charts ↓");
  const picks = h("div", { class: "s-row s-picks" });

  // Draw the rows of the town that `head` describes, and those of the one beside it.
  function draw(head, rows, others) {
    if (!head.metrics || !rows.length) return; // the next town is being made
    const all = allOf(head);
    const place = head.is_own ? `${KEPT}: ${Object.values(head.own).join()}` : KEPT;
    const lively = (name) => rows.some((row) => row[head.columns.indexOf(name)]);
    const does = !head.is_own || head.acts.some((act) => act !== "other" && act !== "idle" && lively(`act.${act}`));
    const kept = JSON.parse(localStorage.getItem(place) || "null") || [...head.own.map(titled), ...(does ? ["What citizens do"] : []), ...head.charts.filter(([, , lines]) => head.model || lines[0][0] !== "fallbacks").filter(([, , lines]) => !head.is_own || lines.some(([name]) => lively(name))).map((each) => each[0])].filter((name) => name !== "All money"); // rules alone have no fallbacks; money only changes hands
    replace(curves, kept.filter((each) => all.has(each)).map((each) => curve(all.get(each), head.columns, rows, others)));
    if (picks.childElementCount === all.size) return;
    const choose = () => {
      localStorage.setItem(place, JSON.stringify([...picks.querySelectorAll("input:checked")].map((each) => each.value)));
      again();
    };
    replace(picks, [...all.keys()].map((each) => h("label", {}, h("input", { type: "checkbox", value: each, checked: kept.includes(each), onchange: choose }), " ", each)));
  }

  let drawn = null;
  const again = () => drawn && draw(...drawn);
  return {
    root: h("section", { "aria-label": "Charts" }, h("div", { class: "s-row s-charts-head" }, down, h("a", { class: "s-link", href: keyed("society/table.csv?"), download: true }, "↓ CSV"), h("details", { class: "s-charting" }, h("summary", {}, "Choose charts"), picks)), curves),
    draw: (...all) => draw(...(drawn = all)),
    clear: () => replace(curves),
  };
}
