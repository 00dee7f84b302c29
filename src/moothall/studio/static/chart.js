// Sums over time: a bar for each span of time, stacked by what they are of; the same as a table.

import { h, svg } from "./dom.js";

const SPANS = [1, 5, 15, 60, 300, 900, 3600, 10800, 86400, 604800, 2592000]; // seconds
const BARS = 40;
const COLOURS = ["work", "food", "leisure", "social", "travel", "sleep"]; // then all others together

const said = (at, span) => new Date(at * 1000).toLocaleString("en", span >= 86400 ? { day: "numeric", month: "short" }
  : span >= 3600 ? { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" } : { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

// Draw points `{ at, of, value }`, times in seconds, known to `least` seconds; `say(value)` is a value in words.
export function chart(title, points, say, least = 1) {
  const all = points.filter((each) => each.value > 0);
  if (!all.length) return null;
  const [from, to] = [Math.min(...all.map((each) => each.at)), Math.max(...all.map((each) => each.at))];
  const span = SPANS.find((each) => each >= least && (to - from) / each < BARS) || SPANS.at(-1);
  const zone = span >= 86400 ? new Date(from * 1000).getTimezoneOffset() * 60 : 0; // a day begins at midnight here
  const start = Math.floor((from - zone) / span) * span + zone;
  const count = Math.floor((to - start) / span) + 1;
  const sums = new Map();
  for (const { of, value } of all) sums.set(of, (sums.get(of) || 0) + value);
  const names = [...sums.keys()].sort((one, two) => sums.get(two) - sums.get(one));
  const top = names.slice(0, COLOURS.length), rest = names.length > top.length;
  const key = (of) => (top.includes(of) ? of : "others");
  const bars = [...Array(count)].map(() => new Map());
  for (const { at, of, value } of all) {
    const bar = bars[Math.floor((at - start) / span)];
    bar.set(key(of), (bar.get(key(of)) || 0) + value);
  }
  const shown = rest ? [...top, "others"] : top;
  const colour = (name) => `var(--s-act-${COLOURS[top.indexOf(name)] || "idle"})`;
  const total = (bar) => [...bar.values()].reduce((one, two) => one + two, 0);
  const most = Math.max(...bars.map(total));
  const width = 100 / Math.max(count, 8);
  const rects = bars.flatMap((bar, n) => {
    let up = 0;
    return shown.filter((name) => bar.has(name)).map((name) => {
      const tall = (48 * bar.get(name)) / most;
      up += tall;
      const made = svg("rect", { x: n * width + width * 0.1, y: 50 - up, width: width * 0.8, height: tall, style: `fill: ${colour(name)}` });
      made.append(svg("title", {}, `${said(start + n * span, span)}, ${name}: ${say(bar.get(name))}`));
      return made;
    });
  });
  return h("figure", { class: "s-chart", "aria-label": `${title}: ${shown.map((name) => `${name} ${say(name === "others" ? names.slice(top.length).reduce((sum, each) => sum + sums.get(each), 0) : sums.get(name))}`).join(", ")}` },
    h("figcaption", {}, h("b", {}, title), shown.map((name) => h("span", {}, h("i", { style: `background: ${colour(name)}` }), name || "(none)"))),
    h("div", { class: "s-axes" }, h("small", {}, say(most)), h("small", {}, "0"), svg("svg", { viewBox: "0 0 100 50", preserveAspectRatio: "none", "aria-hidden": "true" }, ...rects)),
    h("div", { class: "s-ends" }, h("small", {}, said(start, span)), h("small", {}, said(start + (Math.max(count, 8) - 1) * span, span))),
    h("details", {}, h("summary", { class: "s-soft" }, "As a table"), h("table", { class: "s-table" },
      h("thead", {}, h("tr", {}, h("th", {}, "From"), shown.map((name) => h("th", { class: "number" }, name || "(none)")))),
      h("tbody", {}, bars.flatMap((bar, n) => (bar.size ? [h("tr", {}, h("th", { scope: "row" }, said(start + n * span, span)), shown.map((name) => h("td", { class: "number" }, bar.has(name) ? say(bar.get(name)) : "")))] : []))))));
}
