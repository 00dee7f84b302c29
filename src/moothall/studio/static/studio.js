// The frame of the page: what stands above the tabs, the tab bar, and in each tab its forms and its
// live part, loaded when it is first shown.

import "./act.js"; // its cards may come before its tab is opened
import "./report.js";
import { call, h, replace } from "./dom.js";
import { connect, on, onReset } from "./feed.js";
import { showForms } from "./forms.js";
import { mount as mountHeader } from "./header.js";
import { TOLD, go, onPlace, place } from "./place.js";

const { tabs: listed, opens } = TOLD;
const names = listed.map((each) => each.name);
const shown = new Map(); // of each tab its button and its panel
const before = new Map(); // of each tab what it showed last
let current = null;
let has = listed.filter((each) => each.shown).map((each) => each.name); // the tabs that have something to show; the one that a person is at stays

function settle(now) {
  has = now;
  for (const [name, { button }] of shown) button.hidden = name !== current && !has.includes(name);
}

function panelOf({ name, title, script }) {
  const forms = h("div", { class: "s-root s-forms" });
  const live = h("div", { class: `s-root s-${name}`, id: `studio-${name}` });
  const panel = h("section", { role: "tabpanel", id: `tab-${name}`, "aria-labelledby": `to-${name}`, class: "s-tab", hidden: true }, forms, live);
  const button = h("button", { type: "button", role: "tab", id: `to-${name}`, "aria-controls": `tab-${name}`, "aria-selected": "false", tabindex: -1, onclick: () => go(name === current ? [name] : before.get(name) || [name]) }, title);
  let loaded = false;
  const load = async () => {
    if (loaded) return showForms(name, forms); // another program may have recorded something
    loaded = true;
    onReset(() => showForms(name, forms));
    if (!script) document.addEventListener("form-begun", ({ detail: { tab, run } }) => {
      if (tab === name && run) live.prepend(h("p", {}, h("button", { type: "button", class: "s-link", onclick: () => go(["runs", run]) }, `${run}: its steps`)));
    });
    if (script) await import(script).then((made) => made.mount(live)).catch((error) => replace(live, h("p", { class: "s-fault", role: "alert" }, `The tab ${title} cannot be shown: ${error.message}`)));
  };
  return { button, panel, load };
}

function walk(event) { // arrow keys go from tab to tab
  const there = names.filter((each) => !shown.get(each).button.hidden), at = there.indexOf(current);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: there.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const name = there[(to + there.length) % there.length];
  go([name]);
  shown.get(name).button.focus();
}

function show([first]) {
  const name = names.includes(first) ? first : opens;
  before.set(name, place());
  if (name === current) return;
  for (const [each, { button, panel }] of shown) {
    const is = each === name;
    button.setAttribute("aria-selected", String(is));
    button.tabIndex = is ? 0 : -1;
    panel.hidden = !is;
  }
  current = name;
  settle(has);
  const { button, load } = shown.get(name);
  button.scrollIntoView({ block: "nearest", inline: "nearest" });
  load();
}

if (place()[0] === "styleguide") (await import("./styleguide.js")).mount(document.getElementById("studio-main"));
else {
  for (const each of listed) shown.set(each.name, panelOf(each));
  const all = [...shown.values()];
  const bar = h("nav", { class: "s-tabs-bar" }, h("div", { role: "tablist", id: "studio-tabs", "aria-label": "Parts of the studio", onkeydown: walk }, all.map((each) => each.button)));
  const faults = h("div", { class: "s-root" }, TOLD.faults.map((text) => h("p", { class: "s-fault", role: "alert" }, text)));
  replace(document.getElementById("studio-main"), bar, faults, all.map((each) => each.panel));
  const header = document.getElementById("studio-header");
  header.className = "s-root";
  mountHeader(header);
  if (!place().length) go([opens], { instead: true });
  on("tabs", (batch) => settle(batch.at(-1)));
  onReset(async () => settle(await call("tabs")));
  onPlace(show);
  show(place());
  document.addEventListener("visibilitychange", () => { if (!document.hidden) shown.get(current).load(); });
  connect();
}
