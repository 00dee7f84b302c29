// Act and review: a run of `moothall act` as it happens, its steps on the left, H's decisions on the right.

import { attempt, button, call, clock, count, day, dollars, duration, empty, fillWindow, h, json, parsed, replace, runState, sent, stateBadge, titled, update, why } from "./dom.js";
import { drafted } from "./drafts.js";
import { examples } from "./examples.js";
import { on, onReset } from "./feed.js";
import { fillForm } from "./forms.js";
import { growing, grown, onGrowing } from "./growing.js";
import { arrange, cardKind, cardSlot, openCards } from "./inbox.js";
import { ENDED, canStop, further, isAct, known, learn, listed, restState, runs, stands, stop } from "./journal.js";
import { TOLD, go, onPlace, place } from "./place.js";
import { argsOf, given, outcome, prose } from "./values.js";

const RECENT = 50; // runs that can be picked, the newest
const text = (value) => (value === undefined || value === null ? "" : json(value));
const pretty = (args) => { // as a model wrote them, perhaps no JSON
  try { return typeof args === "string" ? parsed(args) : args; } catch { return args; }
};

// -- what a run is, of its entries ------------------------------------------------------------------

export class Run {
  constructor(outline) {
    this.last = 0;
    this.lanes = new Map();
    this.conclusions = [];
    this.decisions = [];
    this.be(outline);
  }

  be(outline) {
    this.outline = { ...this.outline, ...outline };
    this.isDual = this.outline.kind === "DualActAgent";
  }

  lane(path) {
    if (!this.lanes.has(path)) this.lanes.set(path, { path, instruction: "", items: [], steps: new Map(), calls: new Map(), over: null });
    return this.lanes.get(path);
  }

  step(lane, key) {
    if (!lane.steps.has(key)) {
      const step = { kind: "step", key, said: "", calls: [], fault: "" };
      lane.steps.set(key, step);
      lane.items.push(step);
    }
    return lane.steps.get(key);
  }

  action(lane, key, about) {
    const step = this.step(lane, key.split(".")[0]);
    if (!lane.calls.has(key)) {
      const made = { name: about?.action || "", args: {}, state: "asked for" };
      lane.calls.set(key, made);
      step.calls.push(made);
    }
    return lane.calls.get(key);
  }

  take(entry) {
    const { path, kind, data, at } = entry;
    this.last = Math.max(this.last, entry.sequence);
    if (kind !== "over") for (const each of this.lanes.values()) if (each.path === path || !each.path) each.over = null; // it goes on
    const lane = this.lane(path), about = data.about || {};
    if (kind === "begun") lane.instruction = text(data.task);
    else if (kind === "state") this.state(lane, data);
    else if (kind === "over") lane.over = { ...data, at, why: entry.why };
    else if (about.action || kind === "permitted" || (kind === "decided" && lane.calls.has(data.key))) this.called(lane, entry, about);
    else if (about.model !== undefined) {
      const step = this.step(lane, data.key);
      if (kind === "started") Object.assign(step, { began: at, fault: "" });
      else if (kind === "failed") step.fault = data.cancelled ? "cancelled" : text(data.error);
      else if (kind === "ended") {
        Object.assign(step, { ended: at, said: data.result?.text || "", spent: entry.spent, sequence: entry.sequence, cut: entry.cut });
        (data.result?.calls || []).forEach((wanted, place) => {
          const made = this.action(lane, `${data.key}.${place}`, { action: wanted.name });
          if (made.state === "asked for") made.args = pretty(wanted.args);
        });
      }
    } else if (/^H\d+/.test(data.key || "") && !path) this.deciding = kind === "started";
  }

  called(lane, { kind, data, at, sequence, cut, refused }, about) {
    const made = this.action(lane, data.key, about);
    if (kind === "permitted") Object.assign(made, { state: "permitted", was: data.was });
    else if (kind === "started") Object.assign(made, { state: "runs", args: data.args, began: at, asks: data.asks });
    else if (kind === "decided") made.state = "decided";
    else if (kind === "failed") Object.assign(made, { state: "failed", result: text(data.error) });
    else if (kind === "ended") {
      const { args, result = {}, was } = data.result || {};
      const bad = result.error !== undefined && result.error !== null;
      Object.assign(made, { state: refused ? "refused" : bad ? "failed" : "done", result: bad ? result.error : result.result, ended: at, sequence, cut });
      if (args !== undefined) made.args = args;
      made.was = was ?? made.was;
    }
  }

  state(lane, { state = {}, appended = {} }) {
    this.conclusions.push(...(appended.conclusions || []));
    this.decisions.push(...(appended.decisions || []));
    if (!lane.path && this.isDual) return;
    for (const message of appended.messages || [])
      if (message.role === "user" && lane.told) lane.items.push({ kind: "told", said: text(message.content) });
      else if (message.role === "user") lane.told = true;
    const last = [...lane.steps.values()].pop();
    if (state.faults && last) last.fault ||= state.faults; // one that was cancelled has none of its own
  }
}

// -- how it is shown --------------------------------------------------------------------------------

const NEVER = /^not executed: cancelled before/; // no failure of the action
const BADGES = { done: "good", runs: "busy", "asked for": "warn", permitted: "busy", failed: "bad", "in doubt": "bad" }; // of calls
const badge = (state) => h("span", { class: `s-badge ${BADGES[state] || "warn"}` }, state);
const quote = (label, said) => (said ? h("div", { class: "s-said" }, h("span", { class: "s-soft" }, label), prose(text(said))) : null);
const lasted = (from, to) => (from && to ? duration(to - from) : null);

const listOf = (args, was) => (args === null || typeof args !== "object" ? h("pre", {}, text(args)) : h("dl", { class: "s-args" }, argsOf(args, was)));

function showCall(view, made, fault) {
  const isOver = made.state === "runs" && view.outline.state !== "running"; // its process ended
  const state = isOver ? (made.asks ? "in doubt" : "cut off") : (fault && made.state === "asked for") || (made.state === "failed" && NEVER.test(made.result)) ? "not called" : made.state;
  const outcome = made.result === undefined ? null
    : h("div", { class: `s-result ${state}`, role: "group", tabindex: 0, "aria-label": `Result of ${made.name}` }, given(made.result));
  return h("div", { class: "s-call" },
    h("div", { class: "s-row" }, h("b", { class: "s-action" }, text(made.name)), badge(state), made.was ? h("span", { class: "s-badge warn" }, "changed by a person") : null, h("span", { class: "s-soft" }, lasted(made.began, made.ended))),
    listOf(made.args, made.was), outcome, made.cut ? whole(view, made) : null);
}

const whole = (view, item) => button("Show all of it", async () => {
  const entry = await call(`runs/entry?run=${encodeURIComponent(view.outline.id)}&sequence=${item.sequence}`);
  view.take({ ...entry, cut: false });
  draw();
}, "quiet");

// What the model of a lane is writing; H's decisions are shown once they are made.
function written(view, { path }) {
  const [one] = path.startsWith("H") ? [] : growing(({ run, text }) => run === view.outline.id && text);
  return one ? grown({ ...one, calls: [] }) : h("p", { class: "s-soft" }, "the model is asked …");
}

function showItem(view, lane, item) {
  return item.kind === "told"
    ? h("section", { class: "s-step told" }, quote("You said", item.said))
    : h("section", { class: "s-step" },
      h("header", {}, h("b", {}, `${item.began || item.said ? "Answer" : "Step"} ${item.key}`),
        h("span", { class: "s-soft" }, [lasted(item.began, item.ended), item.spent && count(item.spent.tokens, "token")].filter(Boolean).join(" · ")),
        item.began ? h("time", {}, clock(item.began)) : null),
      item.ended || item.fault || !item.began ? null : written(view, lane),
      item.said ? outcome(text(item.said)) : null,
      item.cut ? whole(view, item) : null,
      item.calls.map((made) => showCall(view, made, item.fault)),
      item.fault ? h("p", { class: "s-fault" }, text(item.fault)) : null);
}

// What a fault above the end has said, the end does not repeat; before it, either may name who or what failed.
const isSaid = (detail, faults) => faults.some((each) => each && (each.endsWith(detail) || detail.endsWith(each.slice(each.indexOf(": ") + 2))));
const showEnd = (run, over, ...faults) => (over ? [h("p", { class: "s-end" }, stateBadge(restState(run, over.reason)), " ", h("span", { class: "s-soft" }, over.reason === "waiting" && openCards().some((each) => each.run === run) ? "You decide, on its card." : over.detail && isSaid(over.detail, faults) ? "" : text(over.why)))] : []);

const showLane = (view, lane) => [...lane.items.map((item) => showItem(view, lane, item)), ...(view.isDual ? [] : showEnd(view.outline.id, lane.over, lane.items.at(-1)?.fault))];

function showEvidence(evidence) {
  if (!evidence.length) return h("p", { class: "s-soft" }, "Nothing was called.");
  return h("ul", { class: "s-evidence" }, evidence.map((each) => h("li", {},
    h("b", { class: "s-action" }, text(each.agent ? `${each.agent}: ${each.action}` : each.action)), listOf(pretty(each.args)),
    h("div", { class: each.error ? "s-result failed" : "s-result", role: "group", tabindex: 0, "aria-label": `Result of ${each.action}` }, given(each.error ?? each.result)))));
}

const showConclusion = (made) => h("div", { class: "s-conclusion" }, h("h3", {}, "Conclusion"),
  made.summary ? outcome(text(made.summary)) : h("p", {}, "(nothing)"),
  made.steps?.length ? h("ul", {}, made.steps.map((each) => h("li", {}, text(each)))) : null,
  made.error ? h("p", { class: "s-fault" }, why(text(made.error))) : null,
  typeof made.confidence === "number" ? h("p", { class: "s-soft" }, `confidence ${made.confidence}`) : null);

const DECISIONS = TOLD.decisions;
const SAID = new Map(DECISIONS.map((each) => [each.action, each.said]));

function showRound(view, number) {
  const of = (who) => [...view.lanes.values()].filter((lane) => new RegExp(`^${who}${number}(\\.again)?(/|$)`).test(lane.path));
  const reactive = of("R"), human = of("H"), conclusion = view.conclusions[number - 1], decision = view.decisions[number - 1];
  const right = [h("h2", {}, `Reviewer (H), round ${number}`)];
  const yours = !decision && openCards().some((each) => each.kind === "decision" && each.run === view.outline.id); // its card has the rest
  if (conclusion && !yours) right.push(h("h3", {}, "Evidence: what was really called"), showEvidence(conclusion.evidence || []));
  right.push(...human.flatMap((lane) => showLane(view, lane)));
  if (decision) right.push(h("div", { class: `s-decision ${decision.action}` }, h("h3", {}, SAID.get(decision.action) || decision.action),
    quote("Instruction", text(decision.new_instruction)), quote("Reasoning", decision.reasoning)));
  else if (conclusion && view.deciding) right.push(h("p", { class: "s-soft" }, yours ? "You decide, on its card." : view.outline.job || view.outline.state === "running" ? "Waits for H's decision." : "Not decided yet: the run was stopped."));
  const left = [h("h2", {}, `Worker (R), round ${number}`), reactive[0] && number > 1 ? quote("Instruction", reactive[0].instruction) : null,
    ...reactive.flatMap((lane) => showLane(view, lane)), conclusion && !yours ? showConclusion(conclusion) : null];
  return h("section", { class: "s-round" }, h("div", { class: "s-lane" }, left), h("div", { class: "s-lane" }, right));
}

// Show all that a run has told in a place.
export function drawStory(root, view) {
  update(root, story(view));
}

function story(view) {
  if (!view.isDual) return [...view.lanes.values()].flatMap((lane) => [lane.path ? h("h3", {}, lane.path) : null, ...showLane(view, lane)]);
  const numbers = [...view.lanes.keys()].map((path) => Number(/^R(\d+)/.exec(path)?.[1] || 0));
  return [...Array.from({ length: Math.max(0, ...numbers) }, (_, at) => showRound(view, at + 1)), showEnd(view.outline.id, view.lanes.get("")?.over, ...[...view.lanes.values()].flatMap((lane) => lane.items.map((each) => each.fault)))];
}

// -- the tab ----------------------------------------------------------------------------------------

let draw = () => {};

export function mount(root) {
  const here = new Set(); // those under way in this process
  const newest = () => [...runs.values()].filter(isAct).reverse();
  let view = null, asked = false, atEnd = true;
  const pick = h("select", { class: "s-input", "aria-label": "Run", onchange: () => go(["act", pick.value]) });
  const about = h("div", { class: "s-about" });
  const said = h("input", { class: "s-input", "aria-label": "Tell the agent", placeholder: "Send it a message while it works", required: true });
  drafted(said, "steer");
  const post = (what, body = {}) => call(`act/${what}`, { run: view.outline.id, ...body });
  const buttons = {
    stop: button("Stop", () => stop(view.outline.id), "danger"), pause: button("Pause", () => post("pause")), unpause: button("Continue", () => post("unpause"), "primary"),
    resume: button("Resume", async () => show((await post("resume")).run), "primary"), decide: button("Decide what is in doubt", () => go(["runs", view.outline.id]), "primary"),
    again: titled("Fills the form above with this work, to be changed and begun anew", button("Begin again", () => fillForm("act", "new", view.outline.state === "max_iterations" ? { ...view.outline.order, max_iterations: 2 * view.outline.order.max_iterations } : view.outline.order))),
  };
  const steer = h("form", { class: "s-row s-steer", onsubmit: attempt(() => sent(said, async (text) => (view.outline.job ? post("steer", { text }) : show((await post("resume", { text })).run)))) },
    said, h("button", { class: "s-button" }, "Send"));
  const body = h("div", { class: "s-scroll s-steps", role: "log", "aria-label": "Steps" });
  const more = h("span");
  const whole = h("button", { type: "button", class: "s-link", onclick: () => go(["runs", view.outline.id]) }, "Steps and cost");
  const head = h("div", { class: "s-panel s-act-head" }, h("div", { class: "s-row" }, pick, Object.values(buttons), more, whole), about, steer);
  const none = h("div", {}, empty("No work yet. Say above what is to be done with the files of which folder, and press Start."), examples());
  none.hidden = head.hidden = body.hidden = true; // until it is known what there is
  const slot = cardSlot(h("div"), (card) => card.run === view?.outline.id);
  replace(root, none, head, body, slot);
  fillWindow(root);
  body.addEventListener("scroll", () => { atEnd = body.scrollHeight - body.scrollTop - body.clientHeight < 60; });
  new ResizeObserver(() => { if (atEnd) body.scrollTop = body.scrollHeight; }).observe(body);

  function drawHead() {
    const list = newest().filter((run, at) => at < RECENT || run.id === view?.outline.id);
    none.hidden = list.length > 0;
    head.hidden = body.hidden = !view;
    update(pick, list.map((run) => h("option", { value: run.id }, `${day(run.began)}   ${runState(...stands(run)).word}   ${text(run.task.slice(0, 80))}`)));
    if (!view) return;
    pick.value = view.outline.id;
    const { state, job, task, totals, fault, told = [], order } = view.outline;
    buttons.stop.hidden = !canStop(view.outline);
    buttons.pause.hidden = job !== "running";
    buttons.unpause.hidden = job !== "paused";
    update(more, job || state === "running" ? null : further(view.outline.id, state, order, { why: view.lanes.get("")?.over?.detail }));
    buttons.decide.hidden = Boolean(job) || state !== "in_doubt";
    buttons.resume.textContent = state === "error" ? "Try again" : "Resume";
    buttons.resume.hidden = Boolean(job || more.firstChild) || ENDED.has(state) || ["running", "in_doubt"].includes(state);
    steer.hidden = !job && buttons.resume.hidden;
    said.placeholder = job ? "Send it a message while it works" : "Resume it with a message";
    buttons.again.hidden = Boolean(job) || state === "running" || !order;
    update(about, h("p", { class: "s-task" }, stateBadge(...stands(view.outline)), " ", text(order?.task || task)),
      h("p", { class: "s-soft" }, [order && text(`${order.model} in ${order.root}`), order?.review && text(`reviewed by ${order.review}`),
        totals && (totals.tokens || !job) ? count(totals.tokens, "token") : null, totals && Number(totals.usd) ? dollars(totals.usd) : null, totals && !job ? duration(totals.seconds) : null,
        job === "paused" && "waits in its journal once its step has ended", !job && state === "running" && `begun by ${canStop(view.outline) ? "this program" : "another process"}`].filter(Boolean).join(" · ")),
      told.map((each) => h("p", { role: "status" }, h("b", {}, "Sent when it continues: "), text(each))),
      fault && fault !== view.lanes.get("")?.over?.detail ? h("p", { class: "s-fault" }, text(fault)) : null); // else it stands below
  }

  function drawBody() {
    update(body, view.isDual ? story(view) : view.lanes.has("") ? showLane(view, view.lanes.get("")) : []);
    if (atEnd) body.scrollTop = body.scrollHeight;
  }

  draw = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; drawHead(); if (view) drawBody(); arrange(); });
  };

  async function load() { // what the run has beyond what is shown
    const now = view;
    for (;;) {
      const found = await call(`runs/entries?run=${encodeURIComponent(now.outline.id)}&after=${now.last}`);
      for (const entry of found) if (entry.sequence > now.last) now.take(entry);
      if (found.length < 2000) break;
    }
    draw();
  }

  async function show(id) {
    for (let tries = 0; !runs.has(id) && tries < 2; tries++) await listed(); // the first may be of before it began
    view = new Run(runs.get(id));
    atEnd = true;
    replace(body);
    await load();
    await totals(id);
  }

  async function totals(id) {
    learn({ ...(await known(id)), id });
    tell();
  }

  function tell() { // how the one that is shown stands, and the others
    if (runs.has(view?.outline.id)) view.be(runs.get(view.outline.id));
    draw();
  }

  onPlace(([tab, id]) => { if (tab === "act" && id && id !== view?.outline.id) attempt(() => show(id))(); });
  for (const topic of ["run", "run_gone", "card", "card_gone"]) on(topic, tell);
  onGrowing(() => draw());
  on("entry", attempt(async (batch) => {
    for (const { run, entry } of batch) {
      if (run !== view?.outline.id || entry.sequence <= view.last) continue;
      if (entry.sequence > view.last + 1) await load();
      else view.take(entry);
    }
    draw();
  }));
  on("job", attempt(async (batch) => {
    tell();
    for (const { run, state } of batch.filter((each) => each.command === "act")) {
      const begins = state !== "ended" && !here.has(run);
      if (state === "ended") here.delete(run);
      else here.add(run);
      if (begins && !said.value.trim()) await (place()[0] === "act" && place()[1] ? go(["act", run]) : show(run)); // one that is being written to stays; the address names the one that is shown
      else if (state === "ended" && view?.outline.id === run) { await load(); await totals(run); }
    }
  }));
  onReset(attempt(async () => {
    await listed();
    const found = newest();
    here.clear();
    for (const each of found) if (each.job) here.add(each.id);
    const [tab, id] = place();
    const first = (tab === "act" && runs.has(id) && id) || view?.outline.id || (found.find((each) => each.job) || found[0])?.id;
    if (first) await show(first);
    draw();
  }));
}

// -- the person as H --------------------------------------------------------------------------------

cardKind("decision", (card, decide) => {
  const instruction = h("textarea", { class: "s-input", rows: 2, "data-draft": "instruction", "aria-label": "Instruction", placeholder: "Instruction, to continue or redirect" });
  const reasoning = h("textarea", { class: "s-input", rows: 2, "data-draft": "reasoning", "aria-label": "Reasoning", placeholder: "Reasoning (may be left out)" });
  const choose = ({ choice, instructs }, label, kind) => button(label, () => {
    if (instructs && !instruction.value.trim()) instruction.focus(); // what is missing is said, and where
    return decide({ choice, instruction: instruction.value, reasoning: reasoning.value });
  }, kind);
  const found = card.conclusion;
  const name = (word) => word[0].toUpperCase() + word.slice(1);
  const buttons = DECISIONS.map((each) => choose(each, each.instructs ? `${name(each.choice)} with instruction` : name(each.choice), each.instructs ? "" : "primary"));
  buttons[0].dataset.key = "a";
  instruction.dataset.key = "r";
  return [
    h("summary", { class: "s-card-title" }, h("b", {}, "You are the reviewer (H)"), card.round ? `: the worker (R) has concluded round ${card.round}` : ": the worker (R) has done nothing yet", h("time", {}, clock(card.asked))),
    typeof card.task !== "string" || card.task.length > 160 || card.task.includes("\n") ? quote("Task", card.task) : null, // else it stands above
    h("div", { class: "s-beside" }, found ? showConclusion(found) : null,
      found ? h("div", {}, h("h3", {}, "Evidence: what was really called"), showEvidence(found.evidence)) : null),
    ...card.told.map((each) => quote("Messages from the user", each)),
    h("div", { class: "s-answer" }, h("div", { class: "s-beside" }, instruction, reasoning),
      h("div", { class: "s-row" }, buttons, h("span", { class: "s-soft" }, `${name(DECISIONS.map((each) => `${each.choice} ${each.effect}`).join("; "))}.`))),
  ].filter(Boolean);
});
