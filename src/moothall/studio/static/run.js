// One run, in its place of the page: what it was and cost, what can be done with it, and its steps as
// a tree, as a timeline and as a transcript.

import { Run as Story, drawStory } from "./act.js";
import { attempt, button, call, count, day, dollars, duration, empty, h, json, keyed, number, parsed, replace, runState, stateBadge, titled, toast, update } from "./dom.js";
import { chart } from "./chart.js";
import { ENDED, further, runs, stands } from "./journal.js";
import { go, path } from "./place.js";
import { showTimeline } from "./timeline.js";
import { called, given, outcome } from "./values.js";

const OFFERED = 200; // runs that the field to compare with offers
const ROWS = 500; // entries of a run at once
const BEFORE = 40; // entries before one that is opened by its address
const CHARS = 100000; // of a text at once
const SAID = 1500; // of a reply, above the steps
const DOUBT = "The process ended while this was running, so nobody knows whether it took effect. Look, and decide what becomes of it when the run is resumed. Repeat: it runs again. Skip: it does not, and the model is told that its outcome is unknown. Done: it took effect, with the result that you write.";
const VIEWS = { steps: "Steps", timeline: "Timeline", transcript: "Transcript", cost: "Cost" };
const TABS = { Researcher: "research", Society: "society" };
const TITLES = { act: "Act and review", research: "Research", society: "Society" };
const entries = (n) => (n === 1 ? "1 entry" : `${number(n)} entries`);

// A value that a person may copy; of a very long one the beginning.
function value(label, given) {
  const text = json(given);
  const shown = h("pre", { tabindex: 0, role: "region", "aria-label": label }, text.slice(0, CHARS));
  const more = text.length > CHARS && button(`Show all ${number(text.length)} characters`, () => { shown.textContent = text; more.remove(); }, "quiet");
  const copy = button("Copy text", async () => { await navigator.clipboard.writeText(text); toast(`${label}: copied`, false); }, "quiet");
  return h("div", { class: "s-value" }, h("div", { class: "s-row" }, h("h2", {}, label), copy), shown, more);
}

// Arrow keys go from row to row.
export function walk(event) {
  const all = [...event.currentTarget.querySelectorAll("[data-run], .s-entry > button")];
  const next = all[all.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] || NaN)];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

// One run, in its place of the page; it begins anew when another one is chosen.
export function shownRun(view, id, slot, back, wanted) {
  const at = `run=${encodeURIComponent(id)}`;
  const parts = new Map();
  const partNames = new Map(); // of a part its agent
  const steps = []; // all rows, in order
  const kept = new Map(); // the entries that are shown, by number
  let which = sessionStorage.getItem("moothall-run-view") || "steps";
  let first = wanted ? Math.max(0, wanted - BEFORE) : 0; // entries up to this one are left out
  let about = null;
  let told = null; // by the stream, since `about` was last asked for
  let due = 0; // whether a view is to be drawn
  let last = first; // the number of the last entry that is shown
  let most = first + ROWS;
  let loading = null;
  let ending = null; // its last entry, where that says how it ended
  const [head, goes, doubts, reply, replayed, more] = [h("div", { class: "s-runs-head" }), h("div"), h("div"), h("div"), h("div"), h("div", { class: "s-more" })];
  const fault = h("p", { class: "s-fault", role: "alert", hidden: true });
  const tree = h("div", { class: "s-tree", role: "group", "aria-label": "Steps", onkeydown: walk });
  const [line, story, costs, results] = [h("div", { hidden: true }), h("div", { class: "s-story", hidden: true }), h("div", { class: "s-overview", hidden: true }), h("div")];
  const views = h("div", { class: "s-row s-views", role: "group", "aria-label": "How it is shown" }, Object.entries(VIEWS).map(([name, title]) => h("button", { type: "button", class: "s-button", "data-view": name, onclick: () => pick(name) }, title)));
  const search = h("input", { class: "s-input", type: "search", placeholder: "Search its steps", "aria-label": "Search the steps of this run" });
  const seek = h("form", { class: "s-row", role: "search", onsubmit: (event) => { event.preventDefault(); find(); } }, search, h("button", { class: "s-button" }, "Search"));
  const bar = h("div", { class: "s-row s-run-bar" }, views, h("span", { class: "s-spacer" }), seek);
  const earlier = h("div", { class: "s-earlier" });
  const choices = h("datalist", { id: "s-with" }); // apart from the head, which is drawn again
  replace(view, back, head, slot, goes, fault, doubts, reply, replayed, bar, results, earlier, tree, line, story, costs, more, choices);
  pick(which);

  function pick(name) {
    which = name;
    sessionStorage.setItem("moothall-run-view", name);
    for (const each of views.children) each.setAttribute("aria-pressed", String(each.dataset.view === name));
    for (const [each, its] of [["steps", tree], ["timeline", line], ["transcript", story], ["cost", costs]]) its.hidden = each !== name;
    drawView();
  }

  function drawView() { // what is made of all entries at once
    due ||= requestAnimationFrame(() => {
      due = 0;
      if (!about || which === "steps") return;
      if (which === "timeline") return showTimeline(line, steps.map(timed), about.agent, (sequence) => go(["runs", id, sequence]));
      if (which === "cost") return drawCosts();
      const told = new Story(about);
      for (const entry of kept.values()) told.take(entry);
      drawStory(story, told);
    });
  }

  // What the shown entries have spent over time, by agent and by model.
  function drawCosts() {
    const all = [...kept.values()].filter((each) => each.spent?.tokens && "model" in (each.data.about || {}));
    const of = { agent: (each) => partNames.get(each.path) || each.path || about.agent, model: (each) => each.data.about.model || "(not named)" };
    const charts = [["tokens", "Tokens", number], ["usd", "Cost", dollars]].flatMap(([what, title, say]) => Object.entries(of).map(([by, key]) =>
      chart(`${title} by ${by}`, all.map((each) => ({ at: each.at, of: key(each), value: +(each.spent[what] ?? 0) })), say)));
    replace(costs, charts.some(Boolean) ? charts : empty("No call of a model of this run has a known use of tokens yet."),
      all.some((each) => each.spent.usd === null) && h("p", { class: "s-soft" }, "What models without a known price cost is not in it."));
  }

  function timed(made) {
    const [one] = made.entries, end = made.entries.at(-1);
    const isOver = one !== end || one.kind !== "started";
    return { type: made.type, name: made.line.textContent.split(" → ")[0], part: one.path, from: made.waited ?? one.at, to: isOver ? end.at : about.state === "running" ? null : one.at, sequence: end.sequence, spent: end.spent, bad: Boolean(end.fault) };
  }

  async function find() {
    const text = search.value.trim();
    if (!text) return void replace(results);
    const found = await call(`runs/search?${at}&text=${encodeURIComponent(text)}`).catch((error) => { toast(error.message); return []; });
    replace(results, h("section", { class: "s-panel s-found", "aria-label": "Found" },
      h("div", { class: "s-row" }, h("h2", {}, `${count(found.length, "entry").replace("entrys", "entries")} with “${text}”`), h("span", { class: "s-spacer" }), button("Close", () => replace(results), "quiet")),
      h("ul", { class: "s-list" }, found.map(({ sequence, line: said }) => h("li", {}, h("button", { type: "button", class: "s-link", onclick: () => go(["runs", id, sequence]) }, sequence), " ", said)))));
  }

  // Open a step by the number of one of its entries.
  async function openStep(sequence) {
    const there = () => steps.find((each) => each.entries.some((entry) => entry.sequence === sequence));
    if (!there() && (sequence <= first || sequence > last)) return restart(Math.max(0, sequence - BEFORE), sequence);
    const made = there();
    if (!made) return;
    if (which !== "steps") pick("steps");
    if (made.button.getAttribute("aria-expanded") !== "true") await open(made);
    made.node.scrollIntoView({ block: "center" });
    made.button.focus({ preventScroll: true });
  }

  async function restart(from, sequence) {
    if (loading) await loading;
    parts.clear();
    kept.clear();
    [steps.length, first, last, most] = [0, from, from, from + ROWS];
    replace(tree);
    await fill();
    if (sequence) await openStep(sequence);
  }

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
    bar.hidden = !found && !about; // there is nothing to be shown or searched
    if (!found) return;
    about = Object.assign(found, told); // the stream may have told more than the answer says
    top();
    learnEnding();
    await fill();
    if (about.totals.input === null) call(`runs/sums?${at}`).then((sums) => { if (since === told) { Object.assign(about, sums); top(); } }, (error) => fail(error.message));
  }

  // Entries that are there and not shown yet, one request at a time.
  function fill() {
    loading ??= call(`runs/entries?${at}&after=${last}&most=${Math.max(1, most - last)}`).then(
      (found) => found.forEach(put), (error) => fail(error.message)).finally(() => { loading = null; rest(); });
    return loading;
  }

  function rest() {
    const left = about.entries - last;
    replace(earlier, first > 0 && button(`Show the ${entries(first)} before`, () => restart(0), "quiet"));
    drawView();
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

  // How it ended, or what it replied: its last entry says so.
  async function learnEnding() {
    const { state, entries: at } = about;
    if (["running", "stopped"].includes(state) || !at) return void replace(reply);
    ending = await call(`runs/entry?run=${encodeURIComponent(id)}&sequence=${at}`).catch(() => null);
    if (about.entries !== at) return;
    const { text, value: gave, detail } = ending?.kind === "over" && !ending.path ? ending.data : {};
    const said = gave !== null && typeof gave === "object" ? gave : text, isLong = typeof said === "string" && said.length > SAID;
    const shown = h("div", { class: "s-gave", tabindex: 0, role: "group", "aria-label": "What came of it" }, isLong ? outcome(`${said.slice(0, SAID)} …`) : outcome(said ?? ""));
    const all = isLong && button("Show all of it", () => { replace(shown, outcome(said)); all.remove(); }, "quiet");
    replace(reply, (said || detail) && h("section", { class: "s-panel s-reply", "aria-label": "Reply" },
      detail ? h("p", { class: runState(state).kind === "bad" ? "s-fault" : "s-soft" }, detail) : null, said ? [shown, all] : null));
  }

  // -- what stands above the tree ------------------------------------------------------------------

  function top() {
    if (!about) return;
    const t = about.totals;
    const is = about.state === "running";
    const copied = about.forked_from && t.tokens > about.tokens; // a fork has spent what it did itself
    const figures = [
      ["time", duration(t.seconds)],
      ["tokens", number(copied ? about.tokens : t.tokens), t.input === null ? "adding up …" : copied ? `and ${number(t.tokens - about.tokens)} copied` : `${number(t.input)} in, ${number(t.output)} out`],
      ["cost", dollars(copied ? about.usd : t.usd), copied ? "of its own" : t.unpriced ? `and ${number(t.unpriced)} tokens without a known price` : null],
      ["model calls", number(t.model_calls)], ["tool calls", number(t.tool_calls), t.refused ? `${number(t.refused)} refused` : null], ["errors", t.input === null ? "…" : number(t.errors)],
    ];
    update(goes, is ? null : further(id, about.state, about.order));
    const goesOn = !is && !goes.firstChild && !ENDED.has(about.state);
    update(head,
      h("div", { class: "s-row" }, !is && about.in_doubt.some((each) => !each.decided) ? stateBadge("in_doubt") : stateBadge(...stands(runs.get(id) || about)),
        h("span", { class: "s-soft" }, `${about.kind.toLowerCase() === about.agent.toLowerCase() ? "" : `${about.kind} `}${about.agent}${about.thread ? ` · thread ${about.thread}` : ""} · began ${day(about.began)} · ${entries(about.entries)}`),
        h("span", { class: "s-spacer" }), runs.get(id)?.job ? button("Stop", () => call("act/stop", { run: id }), "danger") : null, !is && titled("Tell the run again from its record: no model is asked, nothing is executed", button("Replay", replay)), titled("A copy that can be resumed with a changed program or another decision; this run stays as it is", button("Fork", () => fork())), goesOn && about.order && button("Resume", resume, "primary")),
      h("h3", { class: "s-text", "aria-level": 2 }, about.task || "(no task)", " ", h("code", { class: "s-soft" }, about.id)),
      h("div", { class: "s-row s-links" }, home(), compareWith(), h("a", { class: "s-link", href: keyed(`runs/export?${at}`), download: true }, "Export")),
      h("p", { class: "s-soft" }, about.forked_from
        ? ["This is a fork of ", h("button", { type: "button", class: "s-link", onclick: () => go(["runs", about.forked_from]) }, about.forked_from), ", which stays as it is. Resume it with a changed program or another decision.  "]
        : null,
        goesOn && !about.order && `A program of yours began it and can resume it with run_id="${about.id}".`,
        about.forked_from && ENDED.has(about.state) && "Its original has finished, so nothing is left to resume."),
      h("dl", { class: "s-figures" }, figures.map(([name, text, beside]) => h("div", { class: name === "errors" && t.errors ? "bad" : null },
        h("dt", {}, name), h("dd", {}, text, beside && h("small", {}, beside))))));
    const [open, decided] = [false, true].map((which) => about.in_doubt.filter((each) => each.decided === which));
    update(doubts, !is && open.length > 0 && [h("h2", {}, "In doubt"), h("p", {}, DOUBT), open.map(doubt)],
      !is && decided.length > 0 && h("details", {}, h("summary", { class: "s-soft" }, `${count(decided.length, "call")} in doubt decided. You may decide otherwise until the run is resumed`), h("p", {}, DOUBT), decided.map(doubt)));
  }

  // Where it was begun, if that is a tab.
  function home() {
    const tab = (about.kind === "ReActAgent" && about.agent === "files") || (about.kind === "DualActAgent" && about.agent === "act") ? "act" : TABS[about.kind];
    return tab && h("button", { type: "button", class: "s-link", onclick: () => go(tab === "society" ? [tab] : [tab, id]) }, `Open in ${TITLES[tab]}`);
  }

  // The runs that it may be compared with: what it is a fork of, its forks, those of the same task, and the newest.
  function compareWith() {
    const others = [...runs.values()].filter((each) => each.id !== id);
    if (!others.length) return null;
    const near = (each) => (each.id === about.forked_from || each.forked_from === id ? 2 : each.task === about.task ? 1 : 0);
    const named = (each) => `${each.task.slice(0, 60)} (${each.id})`;
    const all = () => [...runs.values()].reverse().filter((each) => each.id !== id).sort((one, two) => near(two) - near(one));
    const pick = h("input", { class: "s-input s-with", list: "s-with", placeholder: "another run's task or id", "aria-label": "Compare with",
      onfocus: () => replace(choices, all().slice(0, OFFERED).map((each) => h("option", { value: named(each) }))) });
    const compare = () => {
      const said = pick.value.trim(), words = said.toLowerCase();
      const found = all().find((each) => [each.id, named(each)].includes(said)) || (said && all().find((each) => each.task.toLowerCase().includes(words)));
      if (!found) throw new Error(said ? `no other run has this id or these words: ${said.slice(0, 80)}` : "write which run to compare with, or choose one");
      go(["runs", id, "compare", found.id]);
    };
    return h("form", { class: "s-row", onsubmit: attempt(compare) }, pick, h("button", { class: "s-button" }, "Compare"));
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
    const steps = (Array.isArray(told.steps) ? told.steps : []).map((step) => h("li", {}, called(step.action, step.args),
      step.error ? h("code", { class: "bad" }, step.error.slice(0, 300)) : given(step.result?.result ?? step.result ?? null)));
    replace(replayed, h("section", { class: "s-panel s-given", "aria-label": "Replay" },
      h("div", { class: "s-row" }, h("h2", {}, "Replay"), reason && stateBadge(reason),
        h("span", { class: "s-spacer" }), button("Close", () => replace(replayed), "quiet")),
      h("p", {}, "Replayed from the record: no model was asked, nothing was executed."),
      typeof told.text === "string" && outcome(told.text || "(no text)"),
      told.detail && h("p", { class: "s-soft" }, told.detail), steps.length > 0 && h("ol", {}, steps),
      h("details", {}, h("summary", {}, "All of it"), value("Replay", told))));
    replayed.scrollIntoView({ block: "nearest" });
  }

  async function fork(upto) {
    const copy = await call(`runs/fork?${at}${upto ? `&upto=${upto}` : ""}`, undefined, "POST");
    toast(`${copy.id} is a fork of ${id}`, false);
    go(["runs", copy.id]);
  }

  async function resume() {
    const { run } = await call("act/resume", { run: id });
    await (run === id ? load() : go(["runs", run]));
  }

  // -- the tree ------------------------------------------------------------------------------------

  // The entries of a copy are written at once, so how long their steps took is not known.
  const lasted = (from, to) => (about.forked_from && to === about.totals.began ? "" : duration(to - from));

  // The part of a path; one that nobody announced stands below the run's own.
  function part(path, announced) {
    if (parts.has(path)) return parts.get(path);
    const [body, state] = [h("div"), h("span")];
    if (announced) partNames.set(path, announced.data.agent);
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
    kept.set(last, entry);
    if (which !== "steps") drawView();
    if (entry.part) return void part(entry.part, entry);
    const { kind, data } = entry;
    const where = part(entry.line.startsWith("set up: ") ? "" : entry.path);
    where.began ??= entry.at;
    where.at ??= entry.at; // of the last entry
    if (kind === "begun") replace(where.state, stateBadge("running"));
    if (kind === "over") replace(where.state, stateBadge(data.reason), " ", h("span", { class: "s-soft" }, lasted(where.began, entry.at)));
    const open = where.steps.get(data.key);
    const isEnd = kind === "ended" || kind === "failed";
    if (isEnd && open) {
      where.steps.delete(data.key);
      where.at = entry.at;
      return end(open, entry);
    }
    const made = row(where, entry);
    if (isEnd) end(made, entry);
    if (kind === "permitted" && !about.forked_from) {
      made.waited = where.at;
      if (entry.at - where.at >= 0.1) made.figures[0].textContent = duration(entry.at - where.at);
    }
    where.at = entry.at;
    if (kind === "decided" && open) open.decided = true;
    if (kind === "started") {
      if (open) cutOff(open);
      where.steps.set(data.key, made);
    }
  }

  const originsOf = ({ origins = {}, outside = [] }) => [...Object.entries(origins).flatMap(([name, all]) => all.map((each) => `${name}: ${each.kind} ${each.source ?? ""}`)), ...outside].join("; ");

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
    steps.push(made);
    made.button = h("button", { type: "button", "aria-expanded": "false", onclick: () => open(made) },
      h("span", { class: "s-turn" }, isNew ? turn : ""), h("span", { class: `s-type ${type}` }, type), h("span", { class: "s-said-in" }, made.line, made.state), made.figures);
    made.node = h("div", { class: `s-entry ${type}${isNew ? " new" : ""}` }, made.button);
    where.body.append(made.node);
    return made;
  }

  // The action of a call, by the answer of the model that asks for it: `2.0` is the first call of answer 2.
  function actionOf({ path: where, data: { key } }) {
    const at = key.lastIndexOf("."), asks = (each) => each.kind === "ended" && each.path === where && each.data.key === key.slice(0, at);
    return [...kept.values()].findLast(asks)?.data.result?.calls?.[key.slice(at + 1)]?.name;
  }

  // What happened, without the words that the columns say.
  function brief(entry) {
    const { kind, data } = entry;
    const line = entry.line.replace(/^(tool (call refused|call|result|error)|model (call|answer) \S+|task|set up): /, "").replaceAll("\\n", " ");
    if (kind === "started" && "model" in (data.about || {}) && data.key.includes("/")) return `${data.key}: ${line}`; // of a citizen
    if (kind === "permitted" || kind === "decided") return line.replace(`step ${data.key}`, actionOf(entry) || `step ${data.key}`);
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
    replace(made.state, entry.data.cancelled ? stateBadge("cancelled") : entry.refused ? stateBadge("refused") : entry.fault && stateBadge("failed"), Object.values(entry.origins || {}).flat().some((each) => each.kind === "outside") ? h("span", { class: "s-badge warn", title: originsOf(entry) }, "from outside") : null, entry.data.result?.was ? h("span", { class: "s-badge warn" }, "changed by a person") : null);
  }

  // What a model was given: its messages one by one, so that they can be read, and all as it is.
  const prompt = ({ messages, tools, schema }) => [
    messages.map((each, n) => value(`Input: message ${n + 1}, ${each.role}`, Object.keys(each).length === 2 ? each.content : each)),
    tools?.length ? h("details", {}, h("summary", {}, `Tools: ${tools.map((each) => each.name).join(", ")}`), value("Input: tools", tools)) : null, schema ? value("Input: schema of the answer", schema) : null];

  // What came of a step, for people, above the record of it.
  function readable({ kind, data }) {
    const { result } = data;
    if (kind === "over") return data.text ? h("div", { class: "s-readable" }, outcome(data.text)) : null;
    if (result === null || typeof result !== "object") return null;
    const said = "action" in (data.about || {}) ? result.result?.result : result.text;
    const shown = said === undefined || said === null || said === "" ? null : outcome(said);
    const calls = Array.isArray(result.calls) ? result.calls.map((each) => called(each.name, each.args)) : [];
    return shown || calls.length ? h("div", { class: "s-readable" }, shown, calls) : null;
  }

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
      if (ended) {
        const [words, record] = [readable(ended), value("Output", ended.data.result ?? ended.data.error ?? ended.data)];
        shown.push(ended.fault && h("p", { class: "s-fault" }, ended.fault), words && [h("h2", {}, "Output"), words], words ? h("details", {}, h("summary", {}, "Output, exactly as recorded"), record) : record);
      }
      if (!began && !ended) {
        const [words, record] = [readable(found[0]), value("Recorded", found[0].data)];
        shown.push(words, words ? h("details", {}, h("summary", {}, "Exactly as recorded"), record) : record);
      }
      const number = last.sequence;
      shown.push(h("div", { class: "s-row" }, button("Copy its address", async () => { await navigator.clipboard.writeText(location.origin + path("runs", id, number)); toast("The address of this step is copied.", false); }, "quiet"),
        h("button", { type: "button", class: "s-button quiet", onclick: attempt(() => fork(number)) }, "Fork from this step")));
      shown.push(h("details", {}, h("summary", {}, found.map((each) => `entry ${each.sequence}: ${each.kind}, ${day(each.at)}`).join("; ")), value("Entries", found)));
      replace(made.detail, shown);
    } catch (error) {
      replace(made.detail, h("p", { class: "s-fault", role: "alert" }, error.message));
    }
  }

  return { load, add, become, fail, top, openStep };
}
