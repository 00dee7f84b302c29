// The tab Runs: the runs of the journal, and the chosen one as a tree of parts and steps.

import { button, call, clock, count, date, day, duration, empty, fillWindow, h, json, parsed, replace, runState, stateBadge, toast, update } from "./dom.js";
import { on, onReset } from "./feed.js";
import { ENDED, further, listed, runs, stands } from "./journal.js";

const LISTED = 200; // runs in the list at once
const ROWS = 2000; // entries of a run at once
const CHARS = 100000; // of a text at once

const short = (at) => (Date.now() / 1000 - at < 43200 ? clock(at).slice(0, 5) : date(at));
const made = (each) => (each.forked_from ? each.changed : each.began); // a copy has the times of its own entries
const number = (n) => n.toLocaleString("en");
const entries = (n) => (n === 1 ? "1 entry" : `${number(n)} entries`);
const dollars = (usd) => (+usd === 0 ? "$0" : +usd < 0.01 ? `$${(+usd).toPrecision(2)}` : `$${(+usd).toFixed(2)}`);

// A value that a person may copy; of a very long one the beginning.
function value(label, given) {
  const text = json(given);
  const shown = h("pre", { tabindex: 0, role: "region", "aria-label": label }, text.slice(0, CHARS));
  const more = text.length > CHARS && button(`Show all ${number(text.length)} characters`, () => { shown.textContent = text; more.remove(); }, "quiet");
  const copy = button("Copy text", async () => { await navigator.clipboard.writeText(text); toast(`${label}: copied`, false); }, "quiet");
  return h("div", { class: "s-value" }, h("div", { class: "s-row" }, h("h2", {}, label), copy), shown, more);
}

// Arrow keys go from row to row.
function walk(event) {
  const all = [...event.currentTarget.querySelectorAll("[data-run], .s-entry > button")];
  const next = all[all.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] || NaN)];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

export function mount(root) {
  const filter = h("input", { class: "s-input", type: "search", placeholder: "Filter: id, task or state", "aria-label": "Filter runs", oninput: () => { most = LISTED; list(); } });
  const total = h("span", { class: "s-soft", role: "status" });
  const rows = h("ul", { class: "s-runs-list", "aria-label": "Runs", onkeydown: walk });
  const view = h("section", { class: "s-runs-view s-scroll", "aria-label": "Run" });
  replace(root, h("aside", { class: "s-side" }, h("div", { class: "s-row s-tools" }, filter, total), rows), view);
  fillWindow(root);

  let most = LISTED;
  let fault = "";
  let chosen = sessionStorage.getItem("moothall-run");
  let run = null; // the chosen one, as it is shown
  let due = 0;

  const item = (each) => h("li", {}, h("button", { type: "button", "aria-current": String(each.id === chosen), "data-run": each.id, onclick: () => choose(each.id) },
    h("span", { class: "s-row" }, h("code", { class: "s-one" }, each.id), stateBadge(...stands(each))),
    h("span", { class: "s-one" }, each.forked_from && h("span", { class: "s-soft" }, `fork of ${each.forked_from}: `), each.task || "(no task)"),
    h("span", { class: "s-row s-soft" }, h("span", { class: "s-one" }, `${each.kind} · ${entries(each.entries)}`), h("time", { title: day(made(each)) }, short(made(each))))));

  function list() {
    due = 0;
    const wanted = filter.value.trim().toLowerCase();
    const words = (each) => `${each.id} ${each.kind} ${each.agent} ${each.task} ${runState(...stands(each)).word}`.toLowerCase();
    const found = [...runs.values()].reverse().filter((each) => words(each).includes(wanted));
    total.textContent = found.length === runs.size ? count(runs.size, "run") : `${number(found.length)} of ${count(runs.size, "run")}`;
    const focus = document.activeElement?.dataset.run;
    update(rows, found.slice(0, most).map(item),
      found.length > most && h("li", {}, button(`Show ${number(Math.min(LISTED, found.length - most))} more`, () => { most += LISTED; list(); }, "quiet")),
      fault ? h("li", {}, h("p", { class: "s-fault", role: "alert" }, fault))
        : !runs.size ? h("li", {}, empty("No runs yet. Every run of an agent whose journal= is this studio's file appears here, also while it is under way."))
          : !found.length && h("li", {}, empty("No run passes the filter.")));
    if (focus) rows.querySelector(`[data-run="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  }

  function choose(id) {
    chosen = id;
    sessionStorage.setItem("moothall-run", id);
    for (const each of rows.querySelectorAll("[data-run]")) each.setAttribute("aria-current", String(each.dataset.run === id));
    view.scrollTop = 0;
    run = shownRun(view, id, choose);
    return run.load();
  }

  const mine = (batch, take) => batch.filter((each) => run && (each.run ?? each.id) === chosen).forEach(take);
  on("run", (batch) => {
    mine(batch, (each) => run.become(each));
    due ||= setTimeout(list, 100);
  });
  on("entry", (batch) => mine(batch, (each) => run.add(each.entry)));
  for (const topic of ["card", "card_gone", "job"]) on(topic, () => { list(); run?.top(); });
  on("run_fault", (batch) => mine(batch, (each) => run.fail(each.error)));
  onReset(async () => {
    try {
      await listed();
      fault = "";
    } catch (error) {
      fault = error.message;
    }
    list();
    if (chosen && (run || runs.has(chosen))) await choose(chosen);
    else replace(view, empty(runs.size ? "Choose a run at the left: its steps, what each was given and gave, what it cost." : ""));
  });
}

// One run, in its place of the page; it begins anew when another one is chosen.
function shownRun(view, id, choose) {
  const at = `run=${encodeURIComponent(id)}`;
  const parts = new Map();
  let about = null;
  let told = null; // by the stream, since `about` was last asked for
  let last = 0; // the number of the last entry that is shown
  let most = ROWS;
  let loading = null;
  const [head, goes, doubts, given, more] = [h("div", { class: "s-runs-head" }), h("div"), h("div"), h("div"), h("div", { class: "s-more" })];
  const fault = h("p", { class: "s-fault", role: "alert", hidden: true });
  const tree = h("div", { class: "s-tree", role: "group", "aria-label": "Steps", onkeydown: walk });
  replace(view, head, goes, fault, doubts, given, tree, more);

  function fail(text) {
    fault.textContent = text;
    fault.hidden = !text;
  }

  async function load() {
    const since = (told = {});
    let found = null;
    let wrong = "";
    try {
      found = await call(`runs/run?${at}`);
    } catch (error) {
      wrong = error.message; // it is gone, or the journal is damaged
    }
    if (since !== told) return; // it was asked for again, and that answer is the newer one
    fail(wrong);
    if (!found) return;
    about = Object.assign(found, told); // the stream may have told more than the answer says
    top();
    await fill();
  }

  // Entries that are there and not shown yet, one request at a time.
  function fill() {
    loading ??= call(`runs/entries?${at}&after=${last}&most=${Math.max(1, most - last)}`).then(
      (found) => found.forEach(put), (error) => fail(error.message)).finally(() => { loading = null; rest(); });
    return loading;
  }

  function rest() {
    const left = about.entries - last;
    if (!left && about.state !== "running") for (const each of parts.values()) each.steps.forEach(cutOff);
    if (!about.entries) replace(tree, empty("Nothing is recorded of this run yet."));
    replace(more, last >= most && left > 0
      && button(`Show ${number(Math.min(ROWS, left))} more of ${entries(left)}`, () => { most = last + ROWS; return fill(); }));
  }

  function add(entry) {
    if (!about || entry.sequence <= last) return;
    about.entries = Math.max(about.entries, entry.sequence);
    if (last >= most) rest();
    else if (entry.sequence === last + 1 && !loading) put(entry);
    else fill();
  }

  function become(outline) {
    for (const each of [told, about]) if (each) Object.assign(each, outline);
    if (outline.state !== "running") return load(); // its totals, and what is in doubt
    if (!about) return;
    top();
    if (outline.entries > last) last < most ? fill() : rest();
  }

  // -- what stands above the tree ------------------------------------------------------------------

  function top() {
    if (!about) return;
    const t = about.totals;
    const is = about.state === "running";
    const figures = [
      ["time", duration(t.seconds)],
      ["tokens", number(t.tokens), `${number(t.input)} in, ${number(t.output)} out`],
      ["cost", dollars(t.usd), t.unpriced ? `and ${number(t.unpriced)} tokens without a known price` : null],
      ["model calls", number(t.model_calls)], ["tool calls", number(t.tool_calls), t.refused ? `${number(t.refused)} refused` : null], ["errors", number(t.errors)],
    ];
    update(goes, is ? null : further(id, about.state, about.order));
    const goesOn = !is && !goes.firstChild && !ENDED.has(about.state);
    update(head,
      h("div", { class: "s-row" }, stateBadge(...stands(runs.get(id) || about)),
        h("span", { class: "s-soft" }, `${about.kind} ${about.agent} · began ${day(about.began)} · ${entries(about.entries)}`),
        h("span", { class: "s-spacer" }), !is && button("Replay", replay), button("Fork", fork), goesOn && about.order && button("Resume", resume, "primary")),
      h("h3", { class: "s-text", "aria-level": 2 }, about.task || "(no task)", " ", h("code", { class: "s-soft" }, about.id)),
      h("p", { class: "s-soft" }, about.forked_from
        ? ["This is a fork of ", h("button", { type: "button", class: "s-link", onclick: () => choose(about.forked_from) }, about.forked_from), ", which stays as it is. Resume it with a changed program or another decision.  "]
        : "A fork is resumed with a changed program or another decision; this run stays as it is. ",
        goesOn && !about.order && `A program of yours began it and can resume it with run_id="${about.id}".`,
        about.forked_from && ENDED.has(about.state) && "Its original has finished, so nothing is left to resume."),
      h("dl", { class: "s-figures" }, figures.map(([name, text, beside]) => h("div", { class: name === "errors" && t.errors ? "bad" : null },
        h("dt", {}, name), h("dd", {}, text, beside && h("small", {}, beside))))));
    update(doubts, !is && about.in_doubt.length > 0 && [
      h("h2", {}, "In doubt: these calls were running when the process ended. It is unknown whether they took effect."),
      about.in_doubt.map(doubt)]);
  }

  function doubt(each) {
    const result = h("input", { class: "s-input", placeholder: "its result, as JSON or text", "aria-label": `Result of ${each.line}` });
    const decide = (decision) => async () => {
      Object.assign(about, await call(`runs/decide?${at}`, { [each.number]: decision() }));
      top();
      await fill();
    };
    const done = () => {
      if (!result.value.trim()) throw new Error("write the result of the call first: null, if it has none");
      try { return { done: parsed(result.value) }; } catch { return { done: result.value }; }
    };
    return h("article", { class: "s-card", "aria-label": `Call in doubt ${each.number}` }, h("p", {}, h("code", {}, each.line)),
      h("div", { class: "s-row" }, button("Repeat", decide(() => "repeat")), button("Skip", decide(() => "skip")), result, button("Done with this result", decide(done))));
  }

  async function replay() {
    const told = await call(`runs/replay?${at}`);
    const reason = told.stop_reason || told.over?.reason;
    const steps = (Array.isArray(told.steps) ? told.steps : []).map((step) => h("li", {}, h("code", {}, `${step.action}(${JSON.stringify(step.args)})`), " → ",
      h("code", { class: step.error ? "bad" : null }, (step.error || json(step.result?.result ?? step.result ?? null)).slice(0, 300))));
    replace(given, h("section", { class: "s-panel s-given", "aria-label": "Replay" },
      h("div", { class: "s-row" }, h("h2", {}, "Replay"), reason && stateBadge(reason),
        h("span", { class: "s-spacer" }), button("Close", () => replace(given), "quiet")),
      h("p", {}, "Replayed from the record: no model was asked, nothing was executed."),
      typeof told.text === "string" && h("p", { class: "s-text" }, told.text || "(no text)"),
      told.detail && h("p", { class: "s-soft" }, told.detail), steps.length > 0 && h("ol", {}, steps),
      h("details", {}, h("summary", {}, "All of it"), value("Replay", told))));
    given.scrollIntoView({ block: "nearest" });
  }

  async function fork() {
    const copy = await call(`runs/fork?${at}`, undefined, "POST");
    toast(`${copy.id} is a fork of ${id}`, false);
    await choose(copy.id);
  }

  async function resume() {
    const { run } = await call("act/resume", { run: id });
    await (run === id ? load() : choose(run));
  }

  // -- the tree ------------------------------------------------------------------------------------

  // The entries of a copy are written at once, so how long their steps took is not known.
  const lasted = (from, to) => (about.forked_from && to === about.totals.began ? "" : duration(to - from));

  // The part of a path; one that nobody announced stands below the run's own.
  function part(path, announced) {
    if (parts.has(path)) return parts.get(path);
    const [body, state] = [h("div"), h("span")];
    if (path) {
      const name = announced ? `${announced.data.part.split("/")[0]} · ${announced.data.agent}` : path;
      part(announced ? announced.path : "").body.append(h("details", { class: "s-run-part", open: true }, h("summary", {}, h("b", {}, name), " ", state), body));
    } else replace(tree, body);
    parts.set(path, { body, state, steps: new Map(), turn: null, began: null });
    return parts.get(path);
  }

  function put(entry) {
    if (entry.sequence <= last) return;
    last = entry.sequence;
    if (entry.part) return void part(entry.part, entry);
    const { kind, data } = entry;
    const where = part(entry.line.startsWith("set up: ") ? "" : entry.path);
    where.began ??= entry.at;
    if (kind === "begun") replace(where.state, stateBadge("running"));
    if (kind === "over") replace(where.state, stateBadge(data.reason), " ", h("span", { class: "s-soft" }, lasted(where.began, entry.at)));
    const open = where.steps.get(data.key);
    const isEnd = kind === "ended" || kind === "failed";
    if (isEnd && open) {
      where.steps.delete(data.key);
      return end(open, entry);
    }
    const made = row(where, entry);
    if (isEnd) end(made, entry);
    if (kind === "decided" && open) open.decided = true;
    if (kind === "started") {
      if (open) cutOff(open);
      where.steps.set(data.key, made);
    }
  }

  const TYPES = { begun: "task", over: "end", started: "step", ended: "step", failed: "step", permitted: "person", decided: "person", heard: "told" };

  function row(where, entry) {
    const { data, kind } = entry;
    const about = data.about || {};
    const type = "action" in about ? "tool" : "model" in about ? "model" : entry.line.startsWith("set up: ") ? "set up" : TYPES[kind] || kind;
    const turn = kind === "state" ? null : about.iteration ?? /^(?:[a-z_]+\.)?(\d+)(?:[./]|$)/.exec(data.key || "")?.[1] ?? null;
    const isNew = turn !== null && String(turn) !== where.turn;
    if (isNew) where.turn = String(turn);
    const made = { entries: [entry], type, line: h("span", { class: "s-one" }, brief(entry)), figures: [0, 1, 2].map(() => h("span", { class: "number" })), state: h("span") };
    if (kind === "started") made.state.append(h("span", { class: "s-badge busy" }, "under way"));
    made.button = h("button", { type: "button", "aria-expanded": "false", onclick: () => open(made) },
      h("span", { class: "s-turn" }, isNew ? turn : ""), h("span", { class: `s-type ${type}` }, type), h("span", { class: "s-said-in" }, made.line, made.state), made.figures);
    made.node = h("div", { class: `s-entry ${type}${isNew ? " new" : ""}` }, made.button);
    where.body.append(made.node);
    return made;
  }

  // What happened, without the words that the columns say.
  function brief(entry) {
    const { kind, data } = entry;
    const line = entry.line.replace(/^(tool (call refused|call|result|error)|model (call|answer) \S+|task|set up): /, "").replaceAll("\\n", " ");
    if (kind === "started" && "model" in (data.about || {}) && data.key.includes("/")) return `${data.key}: ${line}`; // of a citizen
    if (kind === "over") return line.replace(/^over, [a-z ]*[a-z]/, runState(data.reason).word);
    const name = kind === "ended" && `${data.about?.action}: `;
    return name && line.startsWith(name) ? line.slice(name.length) : line;
  }

  function cutOff(made) {
    replace(made.state, stateBadge(made.decided ? "decided" : made.entries[0].data.asks ? "in_doubt" : "cut_off"));
  }

  function end(made, entry) {
    const [first, { spent }] = [made.entries[0], entry];
    const [time, tokens, cost] = made.figures;
    if (first !== entry) {
      made.entries.push(entry);
      made.line.append(" → ", brief(entry).replace(/^step \S+ ended(: )?/, ""));
      time.textContent = lasted(first.at, entry.at);
    }
    if (spent?.tokens) {
      tokens.textContent = `${number(spent.tokens)} tok`;
      tokens.title = `${number(spent.input)} in, ${number(spent.output)} out`;
      cost.textContent = spent.usd === null ? "no price" : dollars(spent.usd);
    }
    replace(made.state, entry.data.cancelled ? stateBadge("cancelled") : entry.refused ? stateBadge("refused") : entry.fault && stateBadge("failed"));
  }

  // What a model was given: its messages one by one, so that they can be read, and all as it is.
  const prompt = ({ messages, tools, schema }) => [
    messages.map((each, n) => value(`Input: message ${n + 1}, ${each.role}`, Object.keys(each).length === 2 ? each.content : each)),
    tools?.length ? h("details", {}, h("summary", {}, `Tools: ${tools.map((each) => each.name).join(", ")}`), value("Input: tools", tools)) : null, schema ? value("Input: schema of the answer", schema) : null];

  // What a step was given and gave: the whole entries, as they are recorded.
  async function open(made) {
    const is = made.button.getAttribute("aria-expanded") === "true";
    made.button.setAttribute("aria-expanded", String(!is));
    made.detail?.remove();
    if (is) return;
    made.detail = h("div", { class: "s-detail" }, empty("Loading …"));
    made.node.append(made.detail);
    try {
      const found = await Promise.all(made.entries.map((each) => call(`runs/entry?${at}&sequence=${each.sequence}`)));
      const [began, ended] = [["started"], ["ended", "failed"]].map((kinds) => found.find((each) => kinds.includes(each.kind)));
      const shown = [];
      const args = began?.data.args;
      const last = found[found.length - 1];
      if (made.type === "model") {
        const given = args?.messages ? args : await call(`runs/prompt?${at}&sequence=${last.sequence}&path=${encodeURIComponent(last.path)}`);
        shown.push(given ? prompt(given) : h("p", {}, "What the model is given is recorded with its answer."));
      } else if (args !== undefined) shown.push(value("Input", args));
      if (ended) shown.push(ended.fault && h("p", { class: "s-fault" }, ended.fault), value("Output", ended.data.result ?? ended.data.error ?? ended.data));
      if (!began && !ended) shown.push(value("Recorded", found[0].data));
      shown.push(h("details", {}, h("summary", {}, found.map((each) => `entry ${each.sequence}: ${each.kind}, ${day(each.at)}`).join("; ")), value("Entries", found)));
      replace(made.detail, shown);
    } catch (error) {
      replace(made.detail, h("p", { class: "s-fault", role: "alert" }, error.message));
    }
  }

  return { load, add, become, fail, top };
}
