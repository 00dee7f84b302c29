// The tab Space: the agents, their messages, and the line that a person writes.

import { attempt, button, call, clock, count, dollars, empty, fillWindow, h, json, number, oneAtATime, replace, result, scroller, sent, toast, update } from "./dom.js";
import { drafted } from "./drafts.js";
import { on, onReset } from "./feed.js";
import { growing, grown, onGrowing } from "./growing.js";
import { arrange, cardSlot } from "./inbox.js";
import { findRuns, stop } from "./journal.js";
import { go } from "./place.js";
import { beginTalk, listTalks, mountTalks } from "./talks.js";
import { folded, outcome, prose } from "./values.js";

const MOST = 2000; // rows in the page while an earlier one is read
const ANSWERS = { say: "answers", response: "answers", error: "could not do" }; // how an answer says what it answers
const WINDOW = 300; // rows in the page at once, and in an answer of the server: more are shown by scrolling up

export function mount(root) {
  const looks = new Map(); // of an agent whose entry is made, how it looks at what is behind it
  const ids = new Set(); // of the agents of the space
  const agents = h("ul", { class: "s-agents", "aria-label": "Agents" });
  const you = h("p", { class: "s-soft" });
  const rows = h("div", { class: "s-messages", role: "log", "aria-label": "Messages", tabindex: 0 });
  const writing = h("div", { class: "s-writing" });
  const older = h("button", { type: "button", class: "s-button quiet", onclick: attempt(widen) }, "Show earlier messages");
  const filter = h("input", { class: "s-input", type: "search", placeholder: "Filter: from:Agent, failed, any text", "aria-label": "Filter messages", oninput: () => restart() });
  const total = h("span", { class: "s-soft", role: "status" });
  const line = h("textarea", {
    class: "s-input s-line", rows: 1, "aria-label": "Message or slash line", autocomplete: "off", "aria-autocomplete": "list", "aria-controls": "space-choices", spellcheck: false,
    title: "Enter sends, Tab completes.",
  });
  let wide = 0;
  new ResizeObserver(() => { // no word of it is cut off
    if (wide !== line.clientWidth) requestAnimationFrame(grow); // it may have been hidden
    wide = line.clientWidth;
    line.placeholder = line.clientWidth > 640 ? "Say something to all, or /Agent.action name:value. Enter sends, Tab completes." : "To all, or /Agent.action";
  }).observe(line);
  drafted(line, "line");
  const fault = h("p", { class: "s-fault", role: "alert", hidden: true });
  const choices = h("ul", { class: "s-choices", id: "space-choices", role: "listbox", "aria-label": "Completions", hidden: true });
  replace(root,
    h("aside", { class: "s-side" }, h("h2", {}, "Agents"), agents, you),
    h("div", { class: "s-talks" }, h("section", { class: "s-chat", "aria-label": "All messages" },
      h("div", { class: "s-row s-tools" }, filter, total),
      h("div", { class: "s-scroll" }, older, rows, writing),
      cardSlot(h("div"), (card) => !card.run || ids.has(card.agent)),
      h("form", { class: "s-write", onsubmit: (event) => send(event) },
        choices, line, h("button", { class: "s-button primary" }, "Send")),
      fault)));
  const scroll = root.querySelector(".s-scroll");
  fillWindow(root);

  // -- messages ------------------------------------------------------------------------------------

  const drawn = new Map(); // rows by the number of their message, the oldest first
  let behind = false; // the newest have no rows
  let last = 0; // the number of the newest message that is known
  let counts = { passing: 0, of: 0, most: 0 };
  let me = "User";
  mountTalks(root.querySelector(".s-talks"), () => me);
  const whom = ({ to }) => (to === "*" ? "all" : to);
  const kept = (more) => call(`space/messages?filter=${encodeURIComponent(filter.value)}${more}`);

  function mark(row, { outcome, outcomes, to }) {
    const badge = row.querySelector(".s-outcome");
    badge.textContent = outcome + (to === "*" ? ` by ${outcomes}` : "");
    badge.className = `s-outcome ${outcome}`;
  }

  function row(message) {
    const { name, args } = message.action;
    const text = name === "say" ? args.content : name === "error" ? args.error : name === "response" ? args.data : undefined;
    const body = text !== undefined
      ? [name === "error" ? h("div", { class: "s-text", dir: "auto" }, result(text)) : folded(text, outcome(text))]
      : Object.entries(args).map(([key, value]) => h("div", { class: "s-arg" }, h("span", {}, key), h("code", {}, json(value))));
    const made = h("article", { class: `s-message ${name === "error" ? "error" : ""} ${message.from === me ? "mine" : ""}` },
      h("header", {},
        h("b", { class: "s-from" }, message.from), h("span", { "aria-label": "to" }, "→"), h("b", {}, whom(message)),
        message.answers && ANSWERS[name] ? h("span", { class: "s-soft" }, `${ANSWERS[name]}${message.answers.action === "say" ? "" : ` ${message.answers.action}`}${clock(message.answers.at) === clock(message.at) ? "" : `, ${clock(message.answers.at)}`}`) : h("span", { class: "s-action" }, name), name === "say" && args.thread ? h("span", { class: "s-soft" }, `in ${args.thread}`) : null,
        h("span", { class: "s-outcome" }), h("time", {}, clock(message.at))),
      message.calls ? h("p", { class: "s-soft" }, "called ", h("button", { type: "button", class: "s-link", onclick: () => go(["runs", message.run]) }, message.calls.join(", "))) : null, body);
    made.to = message.to;
    if (message.outcome) mark(made, message);
    drawn.set(message.number, made);
    return made;
  }

  let ends = true; // the end is looked at, and stays so when cards take room above
  for (const each of [scroll, window]) each.addEventListener("scroll", () => {
    ends = nearEnd();
    if (!ends || !behind) return;
    behind = false;
    restart();
  });
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
    const { passing, of, most } = counts;
    older.hidden = passing <= drawn.size;
    total.textContent = `${passing === of ? "" : `${number(passing)} of `}${count(of, "message")}${of === most ? ", the newest" : ""}`;
    if (!of) replace(rows, empty("No messages yet. Write one below: it is said to all agents. /*.help asks what they can do."));
    else if (!drawn.size) replace(rows, empty("No message passes the filter."));
  }

  function learned(answer) {
    counts = answer;
    last = Math.max(last, answer.last);
  }

  const restart = oneAtATime(async () => {
    const answer = await kept("");
    if (answer.last < last) return restart(); // more has come since it was written
    learned(answer);
    drawn.clear();
    behind = false;
    replace(rows, answer.messages.map(row));
    tell();
    toEnd();
  }, 50);

  async function widen() {
    const it = scroller(scroll);
    const answer = await kept(`&before=${drawn.keys().next().value}`);
    const before = it.scrollHeight - it.scrollTop;
    const later = [...drawn];
    drawn.clear();
    rows.prepend(...answer.messages.map(row));
    for (const [number, each] of later) drawn.set(number, each);
    tell();
    it.scrollTop = it.scrollHeight - before;
  }

  function append(fresh) {
    const follows = nearEnd();
    if (!follows && drawn.size >= MOST) behind = true; // they come once the end is looked at
    if (!fresh.length || behind) return tell();
    if (!drawn.size) replace(rows);
    rows.append(...fresh.slice(-WINDOW).map(row));
    if (follows) for (const [number, each] of drawn) { // old rows go while nobody looks at them
      if (drawn.size <= WINDOW) break;
      each.remove();
      drawn.delete(number);
    }
    tell();
    if (follows) toEnd();
  }

  onGrowing(() => { // they are no messages yet
    const follows = nearEnd();
    update(writing, growing((each) => each.to !== null).map((each) => h("article", { class: "s-message", "aria-label": `${each.agent} writes` },
      h("header", {}, h("b", { class: "s-from" }, each.agent), h("span", { "aria-label": "to" }, "→"), h("b", {}, each.to), h("span", { class: "s-soft" }, "writes …"), each.run && button("Stop", () => stop(each.run), "quiet s-small")), grown(each))));
    if (follows) toEnd();
  });

  const filtered = oneAtATime(async () => { // which of the new ones pass is for the server to say
    const after = [...drawn.keys()].pop() || 0;
    const answer = await kept(`&after=${after}`);
    learned(answer);
    if (answer.messages.length === WINDOW) return restart();
    append(answer.messages);
  }, 300);

  on("message", (told) => {
    const fresh = told.filter((message) => message.number > last); // others were loaded already
    if (filter.value.trim()) filtered();
    else if (fresh.length) {
      last = fresh.at(-1).number;
      counts.of = counts.passing = Math.min(counts.of + fresh.length, counts.most);
      append(fresh);
    }
    for (const { answers, action } of fresh) {
      const asked = answers && drawn.get(answers.number);
      if (asked) mark(asked, { to: asked.to, outcomes: answers.outcomes, outcome: action.name === "error" ? "failed" : "answered" });
    }
    for (const id of new Set(fresh.flatMap(({ from, to }) => [from, to]))) looks.get(id)?.();
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
    const were = [...ids].join();
    ids.clear();
    for (const { id } of found.agents) ids.add(id);
    if ([...ids].join() !== were) arrange();
    update(agents, found.agents.map((agent) => {
      const busy = agent.handling?.length || agent.waiting || agent.asking;
      const item = known.get(agent.id) || entry(agent.id, open);
      const dot = item.querySelector(".s-dot");
      dot.className = `s-dot ${busy ? "busy" : ""}`;
      const waiting = agent.waiting ? ` · ${agent.waiting.toLocaleString("en")} waiting` : "";
      item.querySelector(".s-doing").textContent = busy ? `${(agent.handling || []).map(inWords).join(", ") || "waits"} …${waiting}` : "";
      dot.title = busy ? `busy: ${[...(agent.handling || []).map(inWords), agent.waiting ? `${agent.waiting} waiting` : "", agent.asking ? "waits for approval" : ""].filter(Boolean).join(", ")}` : "free";
      return item;
    }));
  }, 1000, () => {}); // the header says that nobody answers

  const inWords = (action) => ({ after_add: "is starting", before_remove: "is leaving" }[action] || action);

  function entry(id, open) {
    const actions = h("ul", { class: "s-actions" });
    const [behind, talks, begin] = ["s-behind", "s-behind", "s-behind"].map((each) => h("div", { class: each }));
    let help = {};
    const look = oneAtATime(async () => { // conversations and cost may be more by now
      if (!details.open) return;
      const known = Object.keys(help).length > 0;
      if (!known) replace(actions, h("li", {}, "…"));
      const [told, who] = await Promise.all(["help", "behind"].map((part) => (known && part === "help" ? help : call(`space/${part}?id=${encodeURIComponent(id)}`))));
      help = told;
      const names = Object.entries(help);
      update(behind, whoSaid(id, who), names.length ? h("button", { type: "button", class: "s-link", onclick: () => showHelp(id, Object.entries(help)) }, "Help as a page") : null);
      update(talks, await listTalks(id, help));
      if (known) return;
      replace(begin, beginTalk(id, help));
      replace(actions, names.length ? names.map(([name, told]) => h("li", {},
        h("button", { type: "button", title: typeof told === "object" ? told?.description || "" : "", onclick: () => insert(id, name, told) }, name),
        h("span", { class: "s-soft" }, typeof told?.description === "string" ? told.description.split("\n")[0] : ""))) : h("li", {}, empty("It offers no actions, or is busy.")));
    }, 2000, (error) => { if (!Object.keys(help).length) toast(error.message); }); // else the header says that nobody answers
    const details = h("details", { "data-id": id, open: open.has(id), ontoggle: look }, h("summary", {}, h("span", { class: "s-dot" }), id, h("span", { class: "s-soft s-doing" })), behind, talks, begin, actions);
    looks.set(id, look);
    return h("li", { "data-id": id }, details);
  }

  // Who is behind an agent: its class, its models, and what its recorded runs have cost.
  function whoSaid(id, { here, kind, models, sums }) {
    if (!here) return h("p", { class: "s-soft" }, "In another process.");
    const said = [kind === id ? null : kind, models.length ? `model ${models.join(", ")}` : null, sums || !models.length ? null : "no run is recorded"].filter(Boolean).join(" · ");
    return h("p", { class: "s-soft" }, said, sums && [said && " · ", h("button", { type: "button", class: "s-link", onclick: () => findRuns(id) }, count(sums.runs, "run")), `, ${number(sums.tokens)} tokens${sums.usd ? `, ${dollars(sums.usd)}` : ""}`]);
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
    lines.push(text); // at once: it is looked back at, and its answers may come, before it is known to be sent
    place = lines.length;
    try {
      const { notice } = await sent(line, () => call("space/line", { line: text }));
      if (notice) toast(notice);
    } catch (error) {
      place = line.value === text ? lines.lastIndexOf(text) : lines.length; // it is in the line again, or one step back
      fault.hidden = false;
      fault.textContent = error.message;
      if (error.column) line.setSelectionRange(error.column - 1, error.column);
      line.setAttribute("aria-invalid", "true");
      line.focus();
      return;
    }
    fault.hidden = true;
    line.removeAttribute("aria-invalid");
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

  line.addEventListener("blur", hide); // they would cover what stands there
  on("state", (now) => { if (now === "open") { fault.hidden = true; line.removeAttribute("aria-invalid"); } }); // it said that nobody answers
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
    last = 0; // another program begins to count anew
    await Promise.all([restart(), look()]);
  });
  setInterval(() => { if (root.offsetParent && !document.hidden) look(); }, 3000);
}
