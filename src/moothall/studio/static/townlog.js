// What has happened in a town, the newest first: messages, changes, questions, failures; found by kind
// and words.

import { call, empty, h, number, oneAtATime, replace } from "./dom.js";

const KEPT = 5000;
const SHOWN = 200;

// `began(step)` says when a step was; `citizen(id, name)` is a citizen, to be opened.
export function townLog(root, began, citizen) {
  let [town, last, events, names] = [0, 0, [], {}]; // `names`: of citizens, by id
  const most = () => (innerWidth < 760 ? 40 : SHOWN); // the page of a narrow window scrolls as a whole
  const kind = h("select", { class: "s-input", "aria-label": "Kind of event", onchange: draw }, h("option", { value: "" }, "all kinds"));
  const words = h("input", { class: "s-input", type: "search", placeholder: "Search", "aria-label": "Search the log", oninput: draw });
  const list = h("ul", { class: "s-list s-log", "aria-label": "Log of events" });
  const total = h("p", { class: "s-soft", role: "status" });
  replace(root, h("div", { class: "s-row s-log-tools" }, kind, words), total, list);

  const called = (id) => (names[id] ? `${names[id]} ${id}` : id);

  function draw() {
    const kinds = [...new Set(events.map((each) => each[2]))].sort();
    if (kind.options.length !== kinds.length + 1) {
      const before = kind.value;
      replace(kind, h("option", { value: "" }, "all kinds"), kinds.map((each) => h("option", { value: each }, each)));
      kind.value = kinds.includes(before) ? before : "";
    }
    const wanted = words.value.trim().toLowerCase();
    const found = events.filter(([, , is, who, to, text]) => (!kind.value || is === kind.value) && (!wanted || `${called(who)} ${to && `to ${called(to)}: `}${text}`.toLowerCase().includes(wanted))).reverse();
    total.textContent = events.length ? `${number(found.length)} of the last ${number(events.length)} events` : "";
    replace(list, found.slice(0, most()).map(([, step, is, who, to, text]) => h("li", {}, h("time", {}, began(step)), " ", h("span", { class: `s-badge ${is === "failure" ? "bad" : is === "change" ? "warn" : ""}` }, is), " ", citizen(who, names[who]), " ", to ? ["to ", citizen(to, names[to]), ": "] : null, text)),
      !events.length && h("li", {}, empty("Nothing has happened yet. Messages of citizens, what you change and ask, and what fails is listed here.")));
  }

  const load = oneAtATime(async () => {
    const told = await call(`society/events?town=${town}&after=${last}`);
    if (told.town !== town) [town, events, names] = [told.town, [], {}];
    Object.assign(names, told.names);
    events = events.concat(told.events).slice(-KEPT);
    last = told.last;
    draw();
  }, 1000);

  return {
    // Load what is new, if it is shown.
    look(head) {
      if (root.hidden || !head.town) return;
      if (head.town !== town) [last, events] = [0, []];
      if (head.town !== town || head.events > last) load();
    },
  };
}
