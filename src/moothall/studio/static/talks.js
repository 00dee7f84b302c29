// Conversations with one agent or group each, beside the messages of the space: what was said before the
// studio began too, where the agent's journal or memory has it.

import { attempt, button, call, clock, count, day, dialog, dollars, empty, h, json, number, oneAtATime, replace, scroller, update } from "./dom.js";
import { on, onReset } from "./feed.js";
import { growing, grown, onGrowing } from "./growing.js";
import { arrange, cardSlot, endSlot, waitsForYou } from "./inbox.js";
import { canStop, findRuns, stop } from "./journal.js";
import { quoted, writtenLine } from "./line.js";
import { go } from "./place.js";
import { unitOf } from "./units.js";
import { called, folded, outcome, prose } from "./values.js";

const MOST = 3; // beside each other
const KEPT = "moothall-talks"; // which are open, over a restart
const open = new Map(); // by agent and thread
const keyOf = (id, thread) => JSON.stringify([id, thread ?? null]);
const query = (id, thread) => `id=${encodeURIComponent(id)}${thread === null ? "" : `&thread=${encodeURIComponent(thread)}`}`;
const today = (at) => new Date(at * 1000).toDateString() === new Date().toDateString();

let place, me = () => "User", changed = () => {}; // where they stand, who the person is, and what is done once others are open

export function mountTalks(root, person, then) {
  [place, me, changed] = [root, person, then];
  let kept = [];
  try { kept = JSON.parse(localStorage.getItem(KEPT) || "[]").map(JSON.parse).slice(0, MOST); } catch { /* of another version */ }
  for (const [id, thread] of kept) openTalk(id, thread, { beside: true, focus: false });
  changed();
  on("message", (batch) => {
    for (const talk of open.values())
      if (batch.some(({ from, to }) => from === talk.id || to === talk.id || (to === "*" && from === me()) || (to === me() && talk.id.startsWith("#")))) talk.look();
  });
  for (const topic of ["card", "card_gone", "run"]) on(topic, () => { for (const talk of open.values()) { talk.look(); talk.grow(); } });
  onReset(async () => { for (const talk of open.values()) talk.look(); });
  onGrowing(() => { for (const talk of open.values()) talk.grow(); });
}

// What waits for an agent while it works, in the order of its turns; `queue` is what the server says.
const queues = new Map(); // by agent
export function queued(id, queue = []) {
  queues.set(id, queue);
  for (const talk of open.values()) if (talk.id === id) talk.wait();
}

export const isTalking = (id) => (id === undefined ? open.size > 0 : [...open.values()].some((talk) => talk.id === id));

// Open a conversation in place of those that are open, or `beside` them.
// With an `action` [name, help], its call is written into the line.
export function openTalk(id, thread = null, { beside = false, focus = true, action = null } = {}) {
  const key = keyOf(id, thread);
  if (!beside) for (const each of [...open.keys()]) if (each !== key) end(each);
  if (!open.has(key)) {
    while (open.size >= MOST) end(open.keys().next().value);
    const talk = made(id, thread, key);
    open.set(key, talk);
    place.append(talk.root);
    talk.look();
  }
  settle();
  if (focus) open.get(key).root.querySelector("textarea").focus();
  if (action) open.get(key).insert(...action);
}

function end(key) {
  open.get(key).end();
  open.delete(key);
}

function settle() {
  place.classList.toggle("talking", open.size > 0);
  localStorage.setItem(KEPT, JSON.stringify([...open.keys()]));
  arrange();
  changed();
}

export function closeTalks() {
  for (const each of [...open.keys()]) end(each);
  settle();
}

function made(id, thread, key) {
  const name = thread === null ? id : `${id}, ${thread}`;
  const about = h("p", { class: "s-soft", hidden: true });
  const log = h("div", { class: "s-sayings", role: "log", "aria-label": `Conversation with ${name}` });
  const writing = h("div", { class: "s-writing" });
  const scroll = h("div", { class: "s-scroll", tabindex: 0, role: "group", "aria-label": `What was said with ${name}` }, log, writing);
  const slot = cardSlot(h("div"), (card) => card.agent === id);
  let ends = true; // the end is looked at, and stays so when a card comes
  const queue = h("div", { class: "s-queue" });
  scroll.append(queue, slot);
  scroll.addEventListener("scroll", () => { ends = atEnd(); });
  new ResizeObserver(() => { if (ends) scroller(scroll).scrollTop = scroller(scroll).scrollHeight; }).observe(slot);
  const line = writtenLine({
    key: `talk/${key}`, label: `Say to ${name}`, hints: [`Say something to ${id}, or /${quoted(id)}.action name:value. Enter sends, Tab completes.`, `Say something to ${id}`],
    lineOf: (text) => {
      if (text.startsWith("/")) return text;
      if (takesNoWords()) throw new Error(`${id} takes no words: choose what it does, above.`);
      return `/${quoted(id)}.say content:${JSON.stringify(text)}${thread === null ? "" : ` thread:${JSON.stringify(thread)}`}`;
    },
  });
  const takesNoWords = () => Object.keys(help).length > 0 && !help.say;
  const [behind, threads, begin, actions] = [h("div", { class: "s-behind" }), h("div"), h("div"), h("ul", { class: "s-actions" })];
  const does = h("details", { class: "s-does", open: true }, h("summary", {}, `What ${id} does`), actions);
  const root = h("section", { class: "s-talk", "aria-label": `With ${name}` },
    h("header", { class: "s-row" }, h("h3", { "aria-level": 2 }, id, thread === null ? null : h("span", { class: "s-soft" }, ` · ${thread}`)), behind, threads, begin, h("span", { class: "s-spacer" }),
      button("Close", () => { end(key); settle(); document.querySelector(`.s-agents [data-id=${CSS.escape(id)}] button`)?.focus(); }, "quiet")),
    thread === null && does, about, scroll, line.root);

  // What it does, and who is behind it.
  let help = {};
  const know = oneAtATime(async () => { // conversations and cost may be more by now
    const known = Object.keys(help).length > 0;
    if (!known && !actions.childElementCount) replace(actions, h("li", {}, "…"));
    const [told, who] = await Promise.all(["help", "behind"].map((part) => (known && part === "help" ? help : call(`space/${part}?id=${encodeURIComponent(id)}`))));
    help = told;
    const names = Object.entries(help);
    update(behind, whoSaid(id, who), names.length ? h("button", { type: "button", class: "s-link", onclick: () => showHelp(root, id, Object.entries(help)) }, "Help as a page") : null);
    update(threads, await listTalks(id, help));
    if (known) return;
    if (takesNoWords()) line.hint(`Choose what ${id} does, or write /${quoted(id)}.${names[0][0]} name:value. Enter sends, Tab completes.`, `Choose what ${id} does`);
    replace(begin, beginTalk(id, help));
    replace(actions, names.length ? names.map(([name, told]) => h("li", {},
      h("button", { type: "button", class: "s-button", onclick: () => line.insert(id, name, told) }, name),
      h("span", { class: "s-soft" }, typeof told?.description === "string" ? told.description.split("\n")[0] : ""))) : h("li", {}, empty("It offers no actions, or is busy.")));
  }, 2000, () => {}); // the header says that nobody answers

  function turn({ by_person, content, at, run, state, action, steps, decisions, author }) {
    return h("article", { class: `s-saying ${by_person ? "mine" : ""} ${state}` },
      h("header", {}, h("b", {}, by_person ? "You" : author || id), state === "waiting" ? waitsForYou(id) || h("span", { class: "s-soft" }, "waits for an answer …") : null,
        run && (!by_person || state === "waiting") ? h("button", { type: "button", class: "s-link", onclick: () => go(["runs", run]) }, "Run") : null,
        state === "waiting" && run && canStop({ id: run }) ? button("Stop", () => stop(run), "quiet s-small") : null, at ? h("time", {}, today(at) ? clock(at) : day(at)) : null),
      steps.length > 0 && h("details", { class: "s-did" }, h("summary", {}, count(steps.length, "step")), h("ol", {}, steps.map((each) => h("li", {}, each)))), decisions.map((each) => h("p", { class: "s-soft" }, each)),
      action ? called(action, content) : folded(content, outcome(content)));
  }

  // What the agent is writing now; `follow` keeps the end in sight.
  function grow() {
    follow(() => update(writing, growing((each) => each.addressee === id && each.to === me() && (each.thread ?? null) === thread).map((each) => h("article", { class: "s-saying" },
      h("header", {}, h("b", {}, each.agent), waitsForYou(each.agent, id) || h("span", { class: "s-soft" }, "writes …")), grown(each)))));
  }
  // What waits its turn; what the person sent can be taken back until it begins.
  function wait() {
    const waiting = queues.get(id) || [];
    follow(() => update(queue, waiting.length > 0 && h("section", { "aria-label": `What waits for ${id}` },
      h("p", { class: "s-soft" }, `${waiting.length === 1 ? "1 message waits" : `${number(waiting.length)} messages wait`} until ${id} is free:`),
      h("ol", {}, waiting.map((each) => h("li", {}, h("span", {}, h("b", {}, each.from === me() ? "You" : each.from), " ", each.text),
        each.from === me() && each.id ? button("Take back", () => takeBack(each.id), "quiet s-small") : null))))));
  }
  const takeBack = async (message) => {
    for (const each of (await call("space/take-back", { to: id, id: message })).agents) queued(each.id, each.queue);
  };
  function atEnd() {
    const it = scroller(scroll);
    return it.scrollHeight - it.scrollTop - it.clientHeight < 80;
  }
  function follow(work) {
    const follows = atEnd();
    work();
    if (follows) scroller(scroll).scrollTop = scroller(scroll).scrollHeight;
  }

  let isNew = true;
  const look = oneAtATime(async () => {
    if (thread === null) know();
    const [turns, { kept, here }] = await Promise.all([call(`space/conversation?${query(id, thread)}`), call(`space/conversations?id=${encodeURIComponent(id)}`)]);
    about.hidden = kept !== null || id.startsWith("#");
    about.textContent = here ? "Gone when the program ends: this agent has no journal and no memory in a file." : `${id} is not in this program${turns.length ? ": what was said before the page began is not shown" : ""}.`;
    if (isNew && turns.length && help.say) does.open = isNew = false; // later it is as a person folds it
    follow(() => update(log, turns.length ? turns.map(turn) : empty("Nothing was said yet. Write below, or choose what it does.")));
  }, 200, () => {});
  const insert = (name, told) => line.insert(id, name, told);
  wait();
  return { id, look, grow, wait, root, insert, end: () => { endSlot(slot); root.remove(); } };
}

// The conversations with an agent, to be opened.
async function listTalks(id, help) {
  if (!help.say) return null;
  const { threads } = await call(`space/conversations?id=${encodeURIComponent(id)}`);
  if (threads.length < 2) return null;
  const said = ({ thread, at }) => h("li", {}, h("button", { type: "button", class: "s-link", onclick: () => openTalk(id, thread, { beside: true }) }, thread === null ? "Conversation" : thread),
    at ? h("span", { class: "s-soft" }, ` ${today(at) ? clock(at) : day(at)}`) : null);
  return h("div", { class: "s-talks-of", role: "group", "aria-label": `${count(threads.length, "conversation")} with ${id}` }, h("ul", { class: "s-threads" }, threads.map(said)));
}

// By which a person begins a conversation of their own name.
function beginTalk(id, help) {
  if (!help.say?.args?.thread) return null;
  const name = h("input", { class: "s-input", "aria-label": `Name of a new conversation with ${id}`, placeholder: "New conversation's name", required: true, maxlength: 100 });
  return h("form", { class: "s-row s-begin", onsubmit: attempt(async () => { openTalk(id, name.value.trim() || null, { beside: true }); name.value = ""; }) }, name, h("button", { class: "s-button" }, "Begin"));
}

// Who is behind an agent: its class, its models, and what its recorded runs have cost.
function whoSaid(id, { here, kind, models, sums, members }) {
  if (members) return h("p", { class: "s-soft" }, `A group: ${members.join(", ")}. All get what you say.`);
  if (!here) return h("p", { class: "s-soft" }, "In another process.");
  const said = [kind === id ? null : kind, models.length ? `model ${models.join(", ")}` : null, sums || !models.length ? null : "no run is recorded"].filter(Boolean).join(" · ");
  return h("p", { class: "s-soft" }, said, sums && [said && " · ", h("button", { type: "button", class: "s-link", onclick: () => findRuns(id) }, count(sums.runs, "run")), `, ${number(sums.tokens)} tokens${sums.usd ? `, ${dollars(sums.usd)}` : ""}`]);
}

// All that an agent says of its actions, over the page until it is closed.
function showHelp(root, id, names) {
  const kind = (told) => [json(told?.type ?? "any"), unitOf(told?.format) ? `, ${unitOf(told.format)}` : "", told?.default === undefined ? "" : `, ${json(told.default)} if left out`].join("");
  const one = ([name, told]) => h("section", {}, h("h3", { "aria-level": 3 }, name), prose(String(told?.description ?? "")),
    Object.keys(told?.args || {}).length ? h("table", { class: "s-table" }, h("tbody", {}, Object.entries(told.args).map(([arg, its]) => h("tr", {}, h("th", { scope: "row" }, arg), h("td", {}, kind(its)), h("td", {}, its?.description || ""))))) : null,
    told?.returns ? h("p", { class: "s-soft" }, `Returns ${kind(told.returns)}. ${told.returns.description || ""}`) : null);
  dialog(root, `Help of ${id}`, `What ${id} does`, names.map(one));
}
