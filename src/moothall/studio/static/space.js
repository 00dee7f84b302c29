// The tab Space: the agents, their messages, and the line that a person writes.

import { attempt, button, call, clock, count, dialog, empty, fillWindow, h, json, number, oneAtATime, replace, result, scroller, update } from "./dom.js";
import { examples } from "./examples.js";
import { on, onReset } from "./feed.js";
import { growing, grown, onGrowing } from "./growing.js";
import { arrange, cardSlot, waitsForYou } from "./inbox.js";
import { stop } from "./journal.js";
import { writtenLine } from "./line.js";
import { TOLD, go } from "./place.js";
import { closeTalks, isTalking, mountTalks, openTalk, queued } from "./talks.js";
import { folded, outcome } from "./values.js";
import { playTown } from "./whatif.js";

const MOST = 2000; // rows in the page while an earlier one is read
const ANSWERS = { say: "answers", response: "answers", error: "could not do" }; // how an answer says what it answers
const INVITED = 12; // agents that the first screen offers
const [OFFERING, OFFERED, NAMED] = [3, 2, 3]; // agents of which it offers actions, actions of each, and actions that stand for one without words
const EXAMPLE = `from moothall import ChattyAI, NativeSpace
from moothall.studio import demo, gradio_user

space = NativeSpace()
space.add(ChattyAI("Chatty"))
space.add(gradio_user)
demo.launch()`;
const WINDOW = 300; // rows in the page at once, and in an answer of the server: more are shown by scrolling up

export function mount(root) {
  const ids = new Set(); // of the agents of the space
  const agents = h("ul", { class: "s-agents", "aria-label": "Agents" });
  const you = h("p", { class: "s-soft" });
  const rows = h("div", { class: "s-messages", role: "log", "aria-label": "Messages", tabindex: 0 });
  const writing = h("div", { class: "s-writing" });
  const lacking = h("div", { class: "s-lacking" });
  const older = h("button", { type: "button", class: "s-button quiet", onclick: attempt(widen) }, "Show earlier messages");
  const filter = h("input", { class: "s-input", type: "search", placeholder: "Filter: from:Agent, failed, any text", "aria-label": "Filter messages", oninput: () => restart() });
  const total = h("span", { class: "s-soft", role: "status" });
  const line = writtenLine({
    key: "line", label: "Message or slash line", hints: ["Say something to all, or /Agent.action name:value. Enter sends, Tab completes.", "To all, or /Agent.action"],
    lineOf: (text) => text, then: () => toEnd(),
  });
  const all = h("button", { type: "button", class: "s-who s-all", onclick: closeTalks }, "All messages");
  replace(root, lacking,
    h("aside", { class: "s-side" }, all, h("h2", {}, "Talk to"), agents, you, button("Things to try", invite, "quiet")),
    h("div", { class: "s-talks" }, h("section", { class: "s-chat", "aria-label": "All messages" },
      h("div", { class: "s-row s-tools" }, filter, total),
      h("div", { class: "s-scroll" }, older, rows, writing),
      cardSlot(h("div"), (card) => !card.run || ids.has(card.agent)),
      line.root)));
  const scroll = root.querySelector(".s-scroll");
  fillWindow(root);

  // -- messages ------------------------------------------------------------------------------------

  const drawn = new Map(); // rows by the number of their message, the oldest first
  let behind = false; // the newest have no rows
  let last = 0; // the number of the newest message that is known
  let counts = { passing: 0, of: 0, most: 0 };
  let me = "User";
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
    it.scrollTop = counts.of ? it.scrollHeight : 0; // an invitation is read from its beginning
  };

  function tell() {
    const { passing, of, most } = counts;
    older.hidden = passing <= drawn.size;
    total.textContent = `${passing === of ? "" : `${number(passing)} of `}${count(of, "message")}${of === most ? ", the newest" : ""}`;
    if (!of) update(rows, invitation());
    else if (!drawn.size) replace(rows, empty("No message passes the filter."));
  }

  // What one can do first: while nothing was said, and by a button later.
  const helps = new Map(); // what the first agents offer, by id
  const firstLine = (told) => String(told?.description ?? "").split("\n")[0];
  const about = (help) => (help.say ? firstLine(help.say) : Object.keys(help).slice(0, NAMED).join(", ") + (Object.keys(help).length > NAMED ? " …" : ""));
  function invitation() {
    const tries = [["act", "Let an agent work in a folder", "It asks you before it changes anything."], ["research", "Research a question", "In your documents or on the web, with a source for each sentence."], ["society", "Watch a town live", "Hundreds of citizens, by rules, without a model."], ["society", "What if schools close", "A town without its schools, beside itself with them.", "Schools close"]];
    const offers = [...helps].slice(0, OFFERING).flatMap(([id, help]) => Object.entries(help).filter(([name]) => name !== "say").slice(0, OFFERED).map((action) => [id, action]));
    return h("div", { class: "s-invite" }, ids.size > 0 ? [h("h2", {}, "Talk to somebody"), h("ul", { class: "s-tries s-whom" }, [...ids].slice(0, INVITED).map((id) => h("li", {}, button(id, () => openTalk(id)), h("span", { class: "s-soft" }, about(helps.get(id) || {}))))),
      offers.length > 0 && h("ul", { class: "s-tries" }, offers.map(([id, action]) => h("li", {}, button(`${id}: ${action[0]}`, () => openTalk(id, null, { action })), h("span", { class: "s-soft" }, firstLine(action[1]))))),
      h("p", { class: "s-soft" }, "A line to all agents is said to each; ", h("code", {}, "/*.help"), " asks what they can do.")]
      : [h("h2", {}, "Agents of yours"), h("p", {}, "Add them in a program, and talk to them here:"), h("pre", { class: "s-example" }, EXAMPLE)],
      h("h2", {}, "Or try"), h("ul", { class: "s-tries" }, tries.map(([tab, title, about, trial]) => h("li", {}, button(title, () => (tab === "society" ? playTown(trial) : go([tab]))), h("span", { class: "s-soft" }, about)))),
      examples(),
      TOLD.docs ? h("p", {}, h("a", { href: TOLD.docs, target: "_blank", rel: "noreferrer" }, "Documentation"))
        : h("p", { class: "s-soft" }, "Documentation: ", h("code", {}, "make docs"), " in the folder that moothall was installed from, or docs/index.md there."));
  }

  const offer = () => Promise.all([...ids].slice(0, INVITED).map(async (id) => {
    helps.set(id, await call(`space/help?id=${encodeURIComponent(id)}`).catch(() => ({})));
    if (!counts.of) tell();
  }));

  async function invite() {
    await offer();
    const shown = dialog(root, "Things to try", "Things to try", invitation());
    shown.addEventListener("click", (event) => event.target.closest(".s-invite button") && shown.close());
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

  const grow = () => { // they are no messages yet
    const follows = nearEnd();
    update(writing, growing((each) => each.to !== null).map((each) => h("article", { class: "s-message", "aria-label": `${each.agent} writes` },
      h("header", {}, h("b", { class: "s-from" }, each.agent), h("span", { "aria-label": "to" }, "→"), h("b", {}, each.to), waitsForYou(each.agent, each.receiver) || h("span", { class: "s-soft" }, "writes …"), each.run && button("Stop", () => stop(each.run), "quiet s-small")), grown(each))));
    if (follows) toEnd();
  };
  onGrowing(grow);
  for (const topic of ["card", "card_gone"]) on(topic, () => { grow(); look(); });

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
    look();
  });

  // -- agents --------------------------------------------------------------------------------------

  // Weights that agents lack: what they are, a button that fetches them, and how far that is.
  const fetching = new Map(); // by name, the newest state
  const MB = (bytes) => `${Math.round(bytes / 1e6)} MB`;
  function lacks(missing) {
    update(lacking, missing.map(({ name, title, bytes, license, agents: whose, ...state }) => {
      const { running, doing, done, total, error } = fetching.get(name) || state;
      return h("div", { class: "s-row s-control s-card", role: "status" },
        h("span", {}, `${whose.join(" and ")} cannot answer yet: ${title} (${MB(bytes)}, ${license}) is not on this machine.`),
        running ? [h("progress", { "aria-label": `Fetching ${title}`, ...(total ? { value: done, max: total } : {}) }), h("span", { class: "s-soft" }, total ? `${doing}, ${Math.floor((100 * done) / total)} %` : `${doing} …`)]
          : button("Fetch it", async () => lacks((await call("space/fetch", { name })).missing)),
        error && h("p", { class: "s-fault" }, error));
    }));
  }
  on("weights", (told) => {
    for (const { name, ...state } of told) fetching.set(name, state);
    look();
  });

  const look = oneAtATime(async () => {
    const found = await call("space/agents");
    me = found.me;
    for (const { name, running } of found.missing) if (!running) fetching.delete(name);
    lacks(found.missing);
    you.textContent = found.space ? `You are ${json(me)}.` : "";
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
    if ([...ids].join() !== were) {
      arrange();
      if (!counts.of) {
        tell();
        attempt(offer)();
      }
    }
    update(agents, [...found.agents, ...Object.keys(found.groups).map((id) => ({ id }))].map((agent) => {
      queued(agent.id, agent.queue);
      const waits = waitsForYou(agent.id), busy = agent.handling?.length || agent.waiting || agent.asking;
      const item = known.get(agent.id) || entry(agent.id);
      const dot = item.querySelector(".s-dot");
      dot.className = `s-dot ${waits ? "waits" : busy ? "busy" : ""}`;
      const waiting = agent.waiting ? ` · ${agent.waiting.toLocaleString("en")} waiting` : "";
      item.querySelector(".s-doing").textContent = waits ? "waits for you" : busy ? `${(agent.handling || []).map(inWords).join(", ") || "waits"} …${waiting}` : "";
      dot.title = busy ? `busy: ${[...(agent.handling || []).map(inWords), agent.waiting ? `${agent.waiting} waiting` : "", agent.asking ? "waits for approval" : ""].filter(Boolean).join(", ")}` : "free";
      return item;
    }));
  }, 1000, () => {}); // the header says that nobody answers

  const inWords = (action) => ({ after_add: "is starting", before_remove: "is leaving" }[action] || action);

  function entry(id) {
    return h("li", { "data-id": id },
      h("button", { type: "button", class: "s-who", "aria-pressed": String(isTalking(id)), onclick: () => openTalk(id) }, h("span", { class: "s-dot" }), id, h("span", { class: "s-soft s-doing" })),
      h("button", { type: "button", class: "s-who s-add", "aria-label": `Talk to ${id} beside`, title: "Beside", onclick: () => openTalk(id, null, { beside: true }) }, "+"));
  }

  mountTalks(root.querySelector(".s-talks"), () => me, () => {
    all.setAttribute("aria-pressed", String(!isTalking()));
    for (const each of agents.querySelectorAll("[data-id]")) each.firstChild.setAttribute("aria-pressed", String(isTalking(each.dataset.id)));
    if (!isTalking()) toEnd();
  });

  onReset(async () => {
    last = 0; // another program begins to count anew
    await Promise.all([restart(), look()]);
  });
  setInterval(() => { if (root.offsetParent && !document.hidden) look(); }, 3000);
}
