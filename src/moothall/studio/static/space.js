// The tab Space: the agents, their messages, and the line that a person writes.

import { attempt, button, call, clock, count, dollars, empty, fillWindow, h, json, number, oneAtATime, replace, result, scroller, sent, toast, update } from "./dom.js";
import { on, onReset } from "./feed.js";
import { cardSlot } from "./inbox.js";
import { outcome, prose } from "./values.js";

const MOST = 10000; // messages that are kept here, as at the server
const WINDOW = 300; // rows in the page at once: more are shown by scrolling up

export function mount(root) {
  const agents = h("ul", { class: "s-agents", "aria-label": "Agents" });
  const you = h("p", { class: "s-soft" });
  const rows = h("div", { class: "s-messages", role: "log", "aria-label": "Messages", tabindex: 0 });
  const older = h("button", { type: "button", class: "s-button quiet", onclick: () => widen() }, "Show earlier messages");
  const filter = h("input", { class: "s-input", type: "search", placeholder: "Filter: any text, or from:Agent", "aria-label": "Filter messages", oninput: () => restart() });
  const total = h("span", { class: "s-soft", role: "status" });
  const line = h("textarea", {
    class: "s-input s-line", rows: 1, "aria-label": "Message or slash line", autocomplete: "off", "aria-autocomplete": "list", "aria-controls": "space-choices", spellcheck: false,
    placeholder: "Say something to all, or /Agent.action name:value. Enter sends, Tab completes.",
  });
  const fault = h("p", { class: "s-fault", role: "alert", hidden: true });
  const choices = h("ul", { class: "s-choices", id: "space-choices", role: "listbox", "aria-label": "Completions", hidden: true });
  replace(root,
    h("aside", { class: "s-side" }, h("h2", {}, "Agents"), agents, you),
    h("section", { class: "s-chat" },
      h("div", { class: "s-row s-tools" }, filter, total),
      h("div", { class: "s-scroll" }, older, rows),
      cardSlot(h("div"), (card) => !card.run),
      h("form", { class: "s-write", onsubmit: (event) => send(event) },
        choices, line, h("button", { class: "s-button primary" }, "Send")),
      fault));
  const scroll = root.querySelector(".s-scroll");
  fillWindow(root);

  // -- messages ------------------------------------------------------------------------------------

  let all = [];
  let shown = []; // those that pass the filter
  let from = 0; // the first of them that has a row
  const asked = new Map(); // an unanswered message by its id, or by sender and receiver
  const said = new Map(); // the last `say` by sender and receiver
  let me = "User";

  function answered(request, message) {
    message.answers = request;
    request.outcome = message.action.name === "error" ? "failed" : "answered";
    request.outcomes = (request.outcomes || 0) + 1;
    if (request.row) mark(request);
  }

  function note(message) {
    const { name, args } = message.action;
    const key = (id, a, b) => (id ? `id ${JSON.stringify(id)} ${a} ${b}` : `${a} ${b}`);
    if (name === "response" || name === "error") {
      const id = args.original_message_id;
      const found = asked.get(key(id, message.to, message.from)) || asked.get(key(id, message.to, "*"));
      const request = Array.isArray(found) ? found[0] : found;
      if (request) answered(request, message);
      if (Array.isArray(found)) found.shift();
    } else if (message.id) asked.set(key(message.id, message.from, message.to), message);
    else {
      const open = key(null, message.from, message.to);
      if (!asked.has(open)) asked.set(open, []);
      const waiting = asked.get(open);
      waiting.push(message);
      if (waiting.length > 100) waiting.shift();
    }
    if (name === "say") { // what is said back answers what was said, to one or to all
      const words = [said.get(key(null, message.to, message.from)), said.get(key(null, message.to, "*"))];
      const request = words.find((each) => each && !each.heard.has(message.from));
      if (request) {
        request.heard.add(message.from);
        answered(request, message);
      } else {
        message.heard = new Set();
        said.set(key(null, message.from, message.to), message);
      }
    }
    if (asked.size > MOST) asked.delete(asked.keys().next().value);
    all.push(message);
  }

  const whom = ({ to }) => (to === "*" ? "all" : to);
  const passes = (message) => {
    const [, part, name] = /^(from|to|action):\s*(.*?)\s*$/i.exec(filter.value) || [];
    if (part) {
      const values = { from: [message.from], to: [message.to, whom(message)], action: [message.action.name] }[part.toLowerCase()];
      return values.some((each) => each.toLowerCase().startsWith(name.toLowerCase()));
    }
    const wanted = filter.value.trim().toLowerCase();
    if (!wanted) return true;
    message.words ??= `${message.from} ${message.to} ${message.action.name} ${JSON.stringify(message.action.args)}`.toLowerCase();
    return message.words.includes(wanted);
  };

  function mark(message) {
    const badge = message.row.querySelector(".s-outcome");
    const all = message.to === "*" ? ` by ${message.outcomes}` : "";
    badge.textContent = message.outcome + all;
    badge.className = `s-outcome ${message.outcome === "answered" ? "answered" : "failed"}`;
  }

  function row(message) {
    const { name, args } = message.action;
    const text = name === "say" ? args.content : name === "error" ? args.error : name === "response" ? args.data : undefined;
    const body = text !== undefined
      ? [name === "error" ? h("div", { class: "s-text", dir: "auto" }, result(text)) : outcome(text)]
      : Object.entries(args).map(([key, value]) => h("div", { class: "s-arg" }, h("span", {}, key), h("code", {}, json(value))));
    message.row = h("article", { class: `s-message ${name === "error" ? "error" : ""} ${message.from === me ? "mine" : ""}` },
      h("header", {},
        h("b", { class: "s-from" }, message.from), h("span", { "aria-label": "to" }, "→"), h("b", {}, whom(message)),
        h("span", { class: "s-action" }, name),
        message.answers ? h("span", { class: "s-soft" }, `to ${message.answers.action.name} of ${clock(message.answers.at)}`) : null,
        h("span", { class: "s-outcome" }), h("time", {}, clock(message.at))),
      body);
    if (message.outcome) mark(message);
    return message.row;
  }

  let ends = true; // the end is looked at, and stays so when cards take room above
  for (const each of [scroll, window]) each.addEventListener("scroll", () => (ends = nearEnd()));
  new ResizeObserver(() => { if (ends) toEnd(); }).observe(scroll);
  const nearEnd = () => {
    const it = scroller(scroll);
    return it.scrollHeight - it.scrollTop - it.clientHeight < 80;
  };
  const toEnd = () => {
    const it = scroller(scroll);
    it.scrollTop = it.scrollHeight;
  };

  function tell() {
    older.hidden = from === 0;
    total.textContent = shown.length === all.length ? count(all.length, "message") : `${shown.length.toLocaleString("en")} of ${count(all.length, "message")}`;
    if (!all.length) replace(rows, empty("No messages yet. Write one below: it is said to all agents. /*.help asks what they can do."));
    else if (!shown.length) replace(rows, empty("No message passes the filter."));
  }

  function restart() {
    shown = all.filter(passes);
    from = Math.max(0, shown.length - WINDOW);
    replace(rows, shown.slice(from).map(row));
    tell();
    toEnd();
  }

  function widen() {
    const it = scroller(scroll);
    const before = it.scrollHeight - it.scrollTop;
    const first = Math.max(0, from - WINDOW);
    rows.prepend(...shown.slice(first, from).map(row));
    from = first;
    tell();
    it.scrollTop = it.scrollHeight - before;
  }

  function add(told) {
    const newest = all.length ? all[all.length - 1].number : 0;
    const batch = told.filter((message) => message.number > newest); // others were loaded already
    const follows = nearEnd();
    for (const message of batch) note(message);
    if (all.length > MOST) all = all.slice(-MOST);
    const fresh = batch.filter(passes);
    if (!fresh.length) return tell();
    if (!shown.length) replace(rows);
    shown.push(...fresh);
    rows.append(...fresh.slice(-WINDOW).map(row));
    if (follows) { // old rows go while nobody looks at them
      const over = rows.childElementCount - WINDOW;
      for (let i = 0; i < over; i++) rows.firstElementChild.remove();
      if (shown.length > MOST) shown = shown.slice(-MOST);
      from = shown.length - rows.childElementCount;
    }
    tell();
    if (follows) toEnd();
  }

  on("message", (batch) => {
    add(batch);
    look();
  });

  // -- agents --------------------------------------------------------------------------------------

  const look = oneAtATime(async () => {
    const found = await call("space/agents");
    me = found.me;
    you.textContent = found.space ? `You are ${json(me)}.` : "";
    const open = new Set([...agents.querySelectorAll("details[open]")].map((each) => each.dataset.id));
    const known = new Map([...agents.children].map((each) => [each.dataset.id, each]));
    if (!found.agents.length) {
      update(agents, h("li", {}, empty(found.space
        ? "Nobody else is in this space. Add an agent: space.add(ChattyAI(\"Chatty\"))."
        : "You are in no space. In your program: space.add(gradio_user).")));
      return;
    }
    update(agents, found.agents.map((agent) => {
      const busy = agent.handling?.length || agent.waiting || agent.asking;
      const item = known.get(agent.id) || entry(agent.id, open);
      const dot = item.querySelector(".s-dot");
      dot.className = `s-dot ${busy ? "busy" : ""}`;
      const waiting = agent.waiting ? ` · ${agent.waiting.toLocaleString("en")} waiting` : "";
      item.querySelector(".s-doing").textContent = busy ? `${agent.handling?.join(", ") || "waits"} …${waiting}` : "";
      dot.title = busy ? `busy: ${[...(agent.handling || []), agent.waiting ? `${agent.waiting} waiting` : "", agent.asking ? "waits for approval" : ""].filter(Boolean).join(", ")}` : "free";
      return item;
    }));
  }, 1000, () => {}); // the header says that nobody answers

  function entry(id, open) {
    const actions = h("ul", { class: "s-actions" });
    const behind = h("div", { class: "s-behind" });
    const details = h("details", { "data-id": id, open: open.has(id), ontoggle: async () => {
      if (!details.open || actions.childElementCount) return;
      replace(actions, h("li", {}, "…"));
      const [help, who] = await Promise.all(["help", "behind"].map((part) => call(`space/${part}?id=${encodeURIComponent(id)}`)));
      const names = Object.entries(help);
      replace(behind, whoSaid(id, who), names.length ? h("button", { type: "button", class: "s-link", onclick: () => showHelp(id, names) }, "Help as a page") : null);
      replace(actions, names.length ? names.map(([name, told]) => h("li", {},
        h("button", { type: "button", title: typeof told === "object" ? told?.description || "" : "", onclick: () => insert(id, name, told) }, name),
        h("span", { class: "s-soft" }, typeof told?.description === "string" ? told.description.split("\n")[0] : ""))) : h("li", {}, empty("It offers no actions, or is busy.")));
    } }, h("summary", {}, h("span", { class: "s-dot" }), id, h("span", { class: "s-soft s-doing" })), behind, actions);
    return h("li", { "data-id": id }, details);
  }

  // Who is behind an agent: its class, its models, and what its recorded runs have cost.
  function whoSaid(id, { here, kind, models, sums }) {
    if (!here) return h("p", { class: "s-soft" }, "In another process.");
    const cost = sums && `${count(sums.runs, "run")}, ${number(sums.tokens)} tokens${sums.usd ? `, ${dollars(sums.usd)}` : ""}`;
    return h("p", { class: "s-soft" }, [kind === id ? null : kind, models.length ? `model ${models.join(", ")}` : null, cost || (models.length ? "no run is recorded" : null)].filter(Boolean).join(" · "));
  }

  // All that an agent says of its actions, over the page until it is closed.
  function showHelp(id, names) {
    const kind = (told) => [json(told?.type ?? "any"), told?.default === undefined ? "" : `, ${json(told.default)} if left out`].join("");
    const one = ([name, told]) => h("section", {}, h("h3", { "aria-level": 3 }, name), prose(String(told?.description ?? "")),
      Object.keys(told?.args || {}).length ? h("table", { class: "s-table" }, h("tbody", {}, Object.entries(told.args).map(([arg, its]) => h("tr", {}, h("th", { scope: "row" }, arg), h("td", {}, kind(its)), h("td", {}, its?.description || ""))))) : null,
      told?.returns ? h("p", { class: "s-soft" }, `Returns ${kind(told.returns)}. ${told.returns.description || ""}`) : null);
    const shown = h("dialog", { class: "s-dialog", "aria-label": `Help of ${id}`, onclose: () => shown.remove() }, h("header", { class: "s-row" }, h("h2", {}, `What ${id} does`), button("Close", () => shown.close(), "quiet")), names.map(one));
    root.append(shown);
    shown.showModal();
  }

  const quoted = (id) => (/^[^\s".:\\]+$/.test(id) ? id : JSON.stringify(id));

  function insert(id, name, told) {
    const all = told && typeof told.args === "object" ? Object.entries(told.args) : [];
    const args = all.filter(([, kind]) => kind?.default === undefined); // the others may be left out
    line.value = `/${quoted(id)}.${name} ` + args.map(([key, kind]) => `${key}:${kind?.type === "string" ? '""' : ""}`).join(" ");
    line.focus();
    const at = line.value.search(/:"?/);
    if (at > 0) line.setSelectionRange(at + 1 + (line.value[at + 1] === '"'), at + 1 + (line.value[at + 1] === '"'));
    grow();
  }

  // -- the line ------------------------------------------------------------------------------------

  const lines = [];
  let place = 0;

  const send = attempt(async () => {
    const text = line.value;
    if (!text.trim()) return;
    hide();
    try {
      const { stranger } = await sent(line, () => call("space/line", { line: text }));
      if (stranger) toast(`There is no agent ${stranger} here, so nobody gets this.`);
    } catch (error) {
      fault.hidden = false;
      fault.textContent = error.message;
      if (error.column) line.setSelectionRange(error.column - 1, error.column);
      line.setAttribute("aria-invalid", "true");
      line.focus();
      return;
    }
    fault.hidden = true;
    line.removeAttribute("aria-invalid");
    lines.push(text);
    place = lines.length;
    grow();
    line.focus();
    toEnd();
  });

  function grow() {
    line.style.height = "auto";
    line.style.height = `${Math.min(line.scrollHeight + line.offsetHeight - line.clientHeight, 160)}px`;
  }

  let found = [];
  let picked = 0;
  let length = 0;
  let made = null; // what stood before the cursor when they were found

  function hide() {
    choices.hidden = true;
    found = [];
    line.removeAttribute("aria-activedescendant");
  }

  async function complete() {
    const before = line.value.slice(0, line.selectionStart);
    if (!before.trimStart().startsWith("/")) return hide();
    const told = await call(`space/complete?text=${encodeURIComponent(before)}`);
    if (before !== line.value.slice(0, line.selectionStart)) return;
    [found, length, picked, made] = [told.found, told.length, 0, before];
    choices.hidden = !found.length;
    replace(choices, found.map((each, at) => h("li", { role: "option", id: `choice-${at}`, onmousedown: (event) => { event.preventDefault(); picked = at; take(); } }, each)));
    pick(0);
  }

  function pick(by) {
    if (!found.length) return;
    picked = (picked + by + found.length) % found.length;
    for (const [at, each] of [...choices.children].entries()) each.setAttribute("aria-selected", at === picked);
    choices.children[picked].scrollIntoView({ block: "nearest" });
    line.setAttribute("aria-activedescendant", `choice-${picked}`);
  }

  async function take() {
    if (made !== line.value.slice(0, line.selectionStart)) await complete(); // typed on since
    if (!found.length) return;
    const at = line.selectionStart;
    line.setRangeText(found[picked], at - length, at, "end");
    hide();
    grow();
    complete().catch(hide);
  }

  line.addEventListener("input", () => {
    grow();
    fault.hidden = true;
    line.removeAttribute("aria-invalid");
    hide();
    complete().catch(hide);
  });
  line.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const listed = found.length > 0;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    } else if (event.key === "Tab" && !event.shiftKey && (listed || (made !== line.value && line.value.startsWith("/")))) {
      event.preventDefault();
      take().catch(hide);
    } else if (event.key === "Escape") hide();
    else if (event.key === "ArrowDown" && listed) { event.preventDefault(); pick(1); }
    else if (event.key === "ArrowUp" && listed) { event.preventDefault(); pick(-1); }
    else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && !line.value.includes("\n") && lines.length) {
      event.preventDefault();
      place = Math.max(0, Math.min(lines.length, place + (event.key === "ArrowUp" ? -1 : 1)));
      line.value = lines[place] || "";
      grow();
    }
  });

  onReset(async () => {
    const found = await call("space/messages");
    all = [];
    asked.clear();
    said.clear();
    found.forEach(note);
    restart();
    await look();
  });
  setInterval(() => { if (root.offsetParent && !document.hidden) look(); }, 3000);
}
