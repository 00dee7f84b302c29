// The runs of the journal: one list for every tab, loaded once and kept up by the stream of events;
// and the form by which one goes on that has reached a limit.

import { attempt, call, h } from "./dom.js";
import { on, onReset } from "./feed.js";
import { TOLD, go } from "./place.js";

export const ENDED = new Set(TOLD.ended); // after any other reason a run can be resumed
export const isAct = (run) => (run.kind === "ReActAgent" && run.agent === "files") || (run.kind === "DualActAgent" && run.agent === "act");
export const agentOf = (run) => (isAct(run) ? "Act and review" : run.agent); // its own id says nothing to a person
export const runs = new Map(); // outlines by id, the oldest first; `job` is how one stands that runs here
const jobs = new Map(); // how each stands of which the stream told: a list may have been asked for before that
const cards = new Map(); // of what waits for a person the run, by the card's number
let loading = null;

async function fetched() { // of what is known already, the stream may have told more
  const [found, waiting] = await Promise.all([call("runs/list"), call("cards")]);
  for (const each of found) if (!runs.has(each.id)) runs.set(each.id, { ...each, ...jobs.get(each.id) });
  for (const { number, run } of waiting) if (!cards.has(number)) cards.set(number, run);
}

// Have all that is in the list now; those who ask meanwhile have it of the same request.
export function listed() {
  loading ??= fetched().finally(() => { loading = null; });
  return loading;
}

// Show the runs with these words in the tab Runs, which takes the words once.
let sought = null;
export function findRuns(words) {
  sought = words;
  go(["runs"]);
}
export function toFind() {
  const words = sought;
  sought = null;
  return words;
}

// What a run came to by its outline, until its sums are there: of a long run they take a while.
export const inShort = ({ began, seconds, usd, tokens, model_calls, actions, errors }) => ({ began, seconds, usd, tokens, model_calls, tool_calls: actions, input: null, output: null, unpriced: 0, errors, refused: 0 });

// All that the server knows of a run: how it stands, its totals and its order.
export async function known(id) {
  const at = `run=${encodeURIComponent(id)}`;
  const [found, sums] = await Promise.all([call(`runs/run?${at}`), call(`runs/sums?${at}`)]);
  return { ...found, ...sums };
}

// What is known of a run, and this.
export function learn(outline) {
  runs.set(outline.id, { ...(runs.get(outline.id) || jobs.get(outline.id)), ...outline });
}

// Whether a run can be stopped from here: this program works on it, whoever began it.
export const canStop = ({ id }) => { const { job, here, state } = runs.get(id) || {}; return Boolean(job ? job !== "stopping" : here && ["running", "waiting", "answered", "awaited"].includes(state)); };
export const stop = (run) => call("act/stop", { run });

// The state of a run, and how it stands: what `stateBadge` takes.
export function stands({ id, state, job }) {
  return [job ? "running" : state, cards.size && [...cards.values()].includes(id) ? "waiting" : job];
}

// The state that a run's end by this reason is now: who waited for a person may have been answered since.
export function restState(id, reason) {
  const known = runs.get(id)?.state;
  return reason === "waiting" && ["answered", "awaited", "running"].includes(known) ? known : reason;
}

on("run", (batch) => batch.forEach(learn));
on("run_gone", (batch) => { for (const { run } of batch) for (const each of [runs, jobs]) each.delete(run); });
on("card", (batch) => { for (const { number, run } of batch) cards.set(number, run); });
on("card_gone", (batch) => { for (const { number } of batch) cards.set(number, null); });
on("job", (batch) => {
  for (const { run, state, reason, text, told } of batch) {
    const ended = state === "ended";
    jobs.set(run, { job: ended ? null : state, told, fault: reason === "error" ? text : "" });
    if (runs.has(run)) learn({ id: run, ...jobs.get(run), ...(ended ? { state: reason } : {}) });
  }
});
onReset(() => {
  for (const each of [runs, jobs, cards]) each.clear();
  return listed();
});

// What a run needs more of by the reason of its end: words by the name in its order.
const MORE = TOLD.more;

// A form by which a run goes on with more, by the reason of its end and its order; null where none of its limits was reached.
// A limit that leaves room for two calls such as the one that was refused, by the words of what it refused: "6561 tokens are needed and 500 of 500 are left".
function roomFor(why = "") {
  const [, needed, left, limit] = (/(\d[\d.]*) [^:]*? are needed and (\d[\d.]*) of (\d[\d.]*) are left/.exec(why) || []).map(Number);
  return needed ? +(limit - left + 2 * needed).toPrecision(12) : 0;
}

export function further(run, reason, order, { done = 0, why = "" } = {}) {
  const words = MORE[reason] || {}, names = Object.keys(words).filter((name) => order?.[name]);
  if (!names.length) return null;
  const fields = names.map((name) => {
    const value = name === "iterations" ? Math.max(order.iterations, done) + 1 : Math.max(2 * order[name], names.length === 1 ? roomFor(why) : 0);
    // The attribute tells one proposal from the next: an update compares attributes.
    return h("input", { class: "s-input s-few", type: "number", min: 0, step: "any", name, required: true, "aria-label": words[name], value, "data-proposed": value });
  });
  const go = attempt(() => call("act/resume", { run, more: Object.fromEntries(fields.map((each) => [each.name, +each.value])) }));
  return h("form", { class: "s-row", "data-run": run, onsubmit: go }, fields.map((each) => [h("label", { class: "s-soft" }, words[each.name]), each]),
    h("button", { class: "s-button primary" }, "Continue"));
}
