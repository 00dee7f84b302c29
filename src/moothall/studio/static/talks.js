// Conversations with one agent each, beside the messages of the space: what was said before the
// studio began too, where the agent's journal or memory has it.

import { attempt, button, call, clock, count, day, empty, h, oneAtATime, replace, scroller, sent, toast, update } from "./dom.js";
import { drafted } from "./drafts.js";
import { on, onReset } from "./feed.js";
import { growing, grown, onGrowing } from "./growing.js";
import { leadTo, openCards } from "./inbox.js";
import { canStop, stop } from "./journal.js";
import { go } from "./place.js";
import { folded, outcome } from "./values.js";

const MOST = 3; // beside each other
const KEPT = "moothall-talks"; // which are open, over a restart
const open = new Map(); // by agent and thread
const keyOf = (id, thread) => JSON.stringify([id, thread ?? null]);
const quoted = (id) => (/^[^\s".:\\]+$/.test(id) ? id : JSON.stringify(id));
const keep = () => localStorage.setItem(KEPT, JSON.stringify([...open.keys()]));
const query = (id, thread) => `id=${encodeURIComponent(id)}${thread === null ? "" : `&thread=${encodeURIComponent(thread)}`}`;
const today = (at) => new Date(at * 1000).toDateString() === new Date().toDateString();

let place, me = () => "User"; // where they stand, and who the person is

export function mountTalks(root, person) {
  [place, me] = [root, person];
  let kept = [];
  try { kept = JSON.parse(localStorage.getItem(KEPT) || "[]").map(JSON.parse).slice(0, MOST); } catch { /* of another version */ }
  for (const [id, thread] of kept) show(id, thread, false);
  on("message", (batch) => {
    for (const talk of open.values())
      if (batch.some(({ from, to }) => from === talk.id || to === talk.id || (to === "*" && from === me()))) talk.look();
  });
  for (const topic of ["card", "card_gone", "run"]) on(topic, () => { for (const talk of open.values()) talk.look(); });
  onReset(async () => { for (const talk of open.values()) talk.look(); });
  onGrowing(() => { for (const talk of open.values()) talk.grow(); });
}

function show(id, thread, focus = true) {
  const key = keyOf(id, thread);
  if (!open.has(key)) {
    while (open.size >= MOST) close(open.keys().next().value);
    const talk = made(id, thread, key);
    open.set(key, talk);
    place.append(talk.root);
    place.classList.add("talking");
    keep();
    talk.look();
  }
  if (focus) open.get(key).root.querySelector("textarea").focus();
}

function close(key) {
  open.get(key).root.remove();
  open.delete(key);
  place.classList.toggle("talking", open.size > 0);
  keep();
}

function made(id, thread, key) {
  const name = thread === null ? id : `${id}, ${thread}`;
  const about = h("p", { class: "s-soft", hidden: true });
  const log = h("div", { class: "s-sayings", role: "log", "aria-label": `Conversation with ${name}` });
  const writing = h("div", { class: "s-writing" });
  const scroll = h("div", { class: "s-scroll", tabindex: 0, role: "group", "aria-label": `What was said with ${name}` }, log, writing);
  const line = h("textarea", { class: "s-input s-line", rows: 2, "aria-label": `Say to ${name}`, placeholder: `Say something to ${id}`, autocomplete: "off",
    onkeydown: (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); say(); } } });
  drafted(line, `talk/${key}`);
  const say = attempt(async () => {
    if (!line.value.trim()) return;
    const { notice } = await sent(line, (text) => call("space/line", { line: `/${quoted(id)}.say content:${JSON.stringify(text)}${thread === null ? "" : ` thread:${JSON.stringify(thread)}`}` }));
    if (notice) toast(notice);
    line.focus();
  });
  const root = h("section", { class: "s-talk", "aria-label": `With ${name}` },
    h("header", { class: "s-row" }, h("h3", {}, id, thread === null ? null : h("span", { class: "s-soft" }, ` · ${thread}`)),
      button("Close", () => { close(key); document.querySelector(`.s-agents [data-id=${CSS.escape(id)}] summary`)?.focus(); }, "quiet")),
    about, scroll, h("form", { class: "s-write", onsubmit: (event) => { event.preventDefault(); say(); } }, line, h("button", { class: "s-button primary" }, "Send")));

  // An agent whose card is open waits for the person, not the other way round.
  function waits() {
    if (!openCards().some(asks)) return h("span", { class: "s-soft" }, "waits for an answer …");
    return h("button", { type: "button", class: "s-link", onclick: () => leadTo(asks) }, "waits for you");
  }
  const asks = (card) => card.agent === id;

  function turn({ mine, said, at, run, state }) {
    return h("article", { class: `s-saying ${mine ? "mine" : ""} ${state}` },
      h("header", {}, h("b", {}, mine ? "You" : id), state === "waiting" ? waits() : null,
        run && (!mine || state === "waiting") ? h("button", { type: "button", class: "s-link", onclick: () => go(["runs", run]) }, "Run") : null,
        state === "waiting" && run && canStop({ id: run }) ? button("Stop", () => stop(run), "quiet s-small") : null, at ? h("time", {}, today(at) ? clock(at) : day(at)) : null),
      folded(said, outcome(said)));
  }

  // What the agent is writing now; `follow` keeps the end in sight.
  function grow() {
    follow(() => update(writing, growing((each) => each.asked === id && each.to === me() && (each.thread ?? null) === thread).map((each) => h("article", { class: "s-saying" },
      h("header", {}, h("b", {}, each.agent), h("span", { class: "s-soft" }, "writes …")), grown(each)))));
  }
  function follow(work) {
    const it = scroller(scroll);
    const follows = it.scrollHeight - it.scrollTop - it.clientHeight < 80;
    work();
    if (follows) it.scrollTop = it.scrollHeight;
  }

  const look = oneAtATime(async () => {
    const [turns, { kept, here }] = await Promise.all([call(`space/conversation?${query(id, thread)}`), call(`space/conversations?id=${encodeURIComponent(id)}`)]);
    about.hidden = kept !== null;
    about.textContent = here ? "Gone when the program ends: this agent has no journal and no memory in a file." : `${id} is not in this program${turns.length ? ": what was said before the page began is not shown" : ""}.`;
    follow(() => update(log, turns.length ? turns.map(turn) : empty("Nothing was said yet.")));
  }, 200, () => {});
  return { id, root, look, grow };
}

// The conversations with an agent, to be opened.
export async function listTalks(id, help) {
  if (!help.say) return null;
  const { threads } = await call(`space/conversations?id=${encodeURIComponent(id)}`);
  const said = ({ thread, at }) => h("li", {}, h("button", { type: "button", class: "s-link", onclick: () => show(id, thread) }, thread === null ? "Conversation" : thread),
    at ? h("span", { class: "s-soft" }, ` ${today(at) ? clock(at) : day(at)}`) : null);
  return h("div", { class: "s-talks-of", role: "group", "aria-label": `${count(threads.length, "conversation")} with ${id}` }, h("ul", { class: "s-threads" }, threads.map(said)));
}

// By which a person begins a conversation of their own name.
export function beginTalk(id, help) {
  if (!help.say?.args?.thread) return null;
  const name = h("input", { class: "s-input", "aria-label": `Name of a new conversation with ${id}`, placeholder: "New conversation's name", required: true, maxlength: 100 });
  return h("form", { class: "s-row s-begin", onsubmit: attempt(async () => { show(id, name.value.trim() || null); name.value = ""; }) }, name, h("button", { class: "s-button" }, "Begin"));
}
