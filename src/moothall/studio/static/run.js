// One run, in its place of the page: what it was and cost, what can be done with it, what is in doubt,
// and its steps as a tree, a timeline, a transcript and a graph of calls.

import { Run as Story, drawStory } from "./act.js";
import { attempt, button, call, cost, count, day, dollars, duration, empty, h, keyed, number, replace, runState, sent, stateBadge, titled, toast, update } from "./dom.js";
import { drawCalls } from "./callgraph.js";
import { chart } from "./chart.js";
import { showDoubts } from "./doubts.js";
import { drafted } from "./drafts.js";
import { growing, grown } from "./growing.js";
import { ENDED, agentOf, canStop, further, inShort, isAct, runs, stands, stop } from "./journal.js";
import { TOLD, go } from "./place.js";
import { showShares } from "./shares.js";
import { stepTree, value } from "./steps.js";
import { showTimeline } from "./timeline.js";
import { called, given, outcome } from "./values.js";

const OFFERED = 200; // runs that the field to compare with offers
const ROWS = 500; // entries of a run at once
const BEFORE = 40; // entries before one that is opened by its address
const SAID = 1500; // of a reply, above the steps
const TABS = { Researcher: "research", Society: "society" };
const TITLES = { act: "Act and review", research: "Research", society: "Society" };
const entries = (n) => (n === 1 ? "1 entry" : `${number(n)} entries`);

// One run, in its place of the page; it begins anew when another one is chosen.
export function shownRun(view, id, slot, back, wanted) {
  const at = `run=${encodeURIComponent(id)}`;
  let which = sessionStorage.getItem("moothall-run-view") || "steps";
  let first = wanted ? Math.max(0, wanted - BEFORE) : 0; // entries up to this one are left out
  let about = null;
  let told = null; // by the stream, since `about` was last asked for
  let due = 0; // whether a view is to be drawn
  let last = first; // the number of the last entry that is shown
  let most = first + ROWS;
  let loading = null;
  let ending = null; // its last entry, where that says how it ended
  const [head, goes, doubts, reply, replayed, more, foot] = [h("div", { class: "s-runs-head" }), h("div"), h("div"), h("div"), h("div"), h("div", { class: "s-more" }), h("div")];
  const fault = h("p", { class: "s-fault", role: "alert", hidden: true });
  const tree = stepTree(id, () => about, fork);
  const results = h("div");
  const openAt = (sequence) => go(["runs", id, sequence]);
  // How it is shown: by name the title, the class of its root, and what draws it there of all entries.
  const VIEWS = {
    steps: ["Steps"],
    timeline: ["Timeline", "", (root) => showTimeline(root, tree.rows.map(timed), agentOf(about), openAt)],
    transcript: ["Transcript", "s-story", (root) => drawStory(root, asStory())],
    calls: ["Calls", "", (root) => drawCalls(root, tree, agentOf(about), openAt)],
    cost: ["Cost", "s-overview", drawCosts],
  };
  const roots = Object.fromEntries(Object.entries(VIEWS).map(([name, [, kind]]) => [name, name === "steps" ? tree.root : h("div", { class: kind, hidden: true })]));
  const views = h("div", { class: "s-row s-views", role: "group", "aria-label": "How it is shown" }, Object.entries(VIEWS).map(([name, [title]]) => h("button", { type: "button", class: "s-button", "data-view": name, onclick: () => pick(name) }, title)));
  const search = h("input", { class: "s-input", type: "search", placeholder: "Search its steps", "aria-label": "Search the steps of this run" });
  const seek = h("form", { class: "s-row", role: "search", onsubmit: (event) => { event.preventDefault(); find(); } }, search, h("button", { class: "s-button" }, "Search"));
  const every = h("button", { type: "button", class: "s-button quiet", "aria-pressed": "false", title: "Also what the run recorded of its own state", onclick: () => every.setAttribute("aria-pressed", String(tree.root.classList.toggle("s-every"))) }, "Every entry");
  const bar = h("div", { class: "s-row s-run-bar" }, views, every, h("span", { class: "s-spacer" }), seek);
  const earlier = h("div", { class: "s-earlier" });
  const choices = h("datalist", { id: "s-with" }); // apart from the head, which is drawn again
  replace(view, back, head, slot, goes, fault, doubts, reply, replayed, bar, results, earlier, ...Object.values(roots), more, foot, choices);
  const tell = drafted(h("input", { class: "s-input", "aria-label": "Message to the agent", placeholder: "A message for it, before it goes on (may be left out)" }), `resume/${id}`);
  const resuming = h("form", { class: "s-row s-resume", onsubmit: attempt(() => sent(tell, resume)) }, tell, h("button", { class: "s-button primary" }, "Resume"));
  // A hand on a run that any process works on.
  const said = drafted(h("input", { class: "s-input", "aria-label": "Tell the run", placeholder: "Interrupt it with a message", required: true }), `tell/${id}`);
  const telling = h("form", { class: "s-row s-steer", onsubmit: attempt(() => sent(said, (text) => ask("steer", { text }))) }, said, h("button", { class: "s-button" }, "Send"));
  const canHold = () => ["running", "waiting", "stopped"].includes(about.state) && !["Society", "Survey", "Schedule"].includes(about.kind) && !runs.get(id)?.job;
  const ask = async (what, body = {}) => {
    await call(`act/${what}`, { run: id, ...body });
    const { paused } = await call(`runs/run?run=${encodeURIComponent(id)}`);
    about = { ...about, paused };
    top();
  };
  pick(which);

  function pick(name) {
    which = name;
    sessionStorage.setItem("moothall-run-view", name);
    for (const each of views.children) each.setAttribute("aria-pressed", String(each.dataset.view === name));
    for (const [each, its] of Object.entries(roots)) its.hidden = each !== name;
    every.hidden = name !== "steps";
    drawView();
  }

  function drawView() { // what is made of all entries at once
    due ||= requestAnimationFrame(() => {
      due = 0;
      if (about) VIEWS[which][2]?.(roots[which]);
    });
  }

  function asStory() {
    const told = new Story(about);
    for (const entry of tree.kept.values()) told.take(entry);
    return told;
  }

  // What the shown entries have spent over time, by agent and by model.
  function drawCosts(root) {
    const all = [...tree.kept.values()].filter((each) => each.spent?.tokens && "model" in (each.data.about || {}));
    const of = { agent: (each) => tree.agentOf(each.path) || each.path || agentOf(about), model: (each) => each.data.about.model || "(not named)" };
    const charts = [["tokens", "Tokens", number], ["usd", "Cost", dollars]].flatMap(([what, title, say]) => Object.entries(of).map(([by, key]) =>
      chart(`${title} by ${by}`, all.map((each) => ({ at: each.at, of: key(each), value: +(each.spent[what] ?? 0) })), say)));
    replace(root, charts.some(Boolean) ? charts : empty("No call of a model of this run has a known use of tokens yet."),
      all.some((each) => each.spent.usd === null) && h("p", { class: "s-soft" }, "What models without a known price cost is not in it."));
  }

  function timed(made) {
    const [one] = made.entries, end = made.entries.at(-1);
    const isOver = one !== end || one.kind !== "started";
    return { type: made.type, name: made.line.textContent.split(" → ").at(made.type === "model" ? -1 : 0), part: one.path, from: made.waited ?? one.at, to: isOver ? end.at : about.state === "running" ? null : one.at, sequence: end.sequence, spent: end.spent, bad: Boolean(end.fault) };
  }

  async function find() {
    const text = search.value.trim();
    if (!text) return void replace(results);
    const found = await call(`runs/search?${at}&text=${encodeURIComponent(text)}`).catch((error) => { toast(error.message); return []; });
    replace(results, h("section", { class: "s-panel s-found", "aria-label": "Found" },
      h("div", { class: "s-row" }, h("h2", {}, `${entries(found.length)} with “${text}”`), h("span", { class: "s-spacer" }), button("Close", () => replace(results), "quiet")),
      h("ul", { class: "s-list" }, found.map(({ sequence, line: said }) => h("li", {}, h("button", { type: "button", class: "s-link", onclick: () => go(["runs", id, sequence]) }, sequence), " ", said)))));
  }

  // Open a step by the number of one of its entries.
  async function openStep(sequence) {
    const there = () => tree.rows.find((each) => each.entries.some((entry) => entry.sequence === sequence));
    if (!there() && (sequence <= first || sequence > last)) return restart(Math.max(0, sequence - BEFORE), sequence);
    const made = there();
    if (!made) return;
    if (which !== "steps") pick("steps");
    if (made.button.getAttribute("aria-expanded") !== "true") await tree.open(made);
    made.node.scrollIntoView({ block: "center" });
    made.button.focus({ preventScroll: true });
  }

  async function restart(from, sequence) {
    if (loading) await loading;
    tree.clear();
    [first, last, most] = [from, from, from + ROWS];
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
    about = Object.assign({ totals: about?.totals || inShort(found), order: about?.order }, found, told); // the stream may have told more than the answer says
    top();
    learnEnding();
    const summing = call(`runs/sums?${at}`).then((sums) => { if (since === told) { Object.assign(about, sums); top(); } }, (error) => fail(error.message));
    await fill();
    if (about.entries <= ROWS) await summing; // else the page goes on meanwhile
  }

  // Entries that are there and not shown yet, one request at a time.
  function fill() {
    if (loading) return loading;
    const known = about.entries; // one that is told of while this is asked may not be in the answer
    loading = call(`runs/entries?${at}&after=${last}&most=${Math.max(1, most - last)}`).then(
      (found) => found.forEach(put), (error) => fail(error.message)).finally(() => { loading = null; rest(); if (about.entries > known && last < most) fill(); });
    return loading;
  }

  function rest() {
    const left = about.entries - last;
    replace(earlier, first > 0 && button(`Show the ${entries(first)} before`, () => restart(0), "quiet"));
    drawView();
    if (!left && about.state !== "running") tree.close();
    if (!about.entries) replace(tree.root, empty(about.state === "running" ? "Nothing is recorded of this run yet." : "It ended before its first step: look at what the program that began it has logged."));
    replace(more, last >= most && left > 0
      && button(`Show ${number(Math.min(ROWS, left))} more of ${entries(left)}`, () => { most = last + ROWS; return fill(); }));
  }

  function put(entry) {
    if (entry.sequence <= last) return;
    last = entry.sequence;
    tree.put(entry);
    if (which !== "steps") drawView();
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
    grow();
    if (outline.entries > last) last < most ? fill() : rest();
  }

  // How it ended, or what it replied: its last entry says so.
  async function learnEnding() {
    const { state, entries: at } = about;
    if (state === "running") return grow();
    if (state === "stopped" || !at) return void replace(reply);
    ending = await call(`runs/entry?run=${encodeURIComponent(id)}&sequence=${at}`).catch(() => null);
    if (about.entries !== at) return;
    if (ending?.path.startsWith("@")) { // noted since, such as a link
      const before = (await call(`runs/entries?run=${encodeURIComponent(id)}&after=${Math.max(0, at - BEFORE)}`)).findLast((each) => each.kind === "over" && !each.path);
      ending = before && await call(`runs/entry?run=${encodeURIComponent(id)}&sequence=${before.sequence}`);
    }
    const { text, value: gave, detail, reason } = ending?.kind === "over" && !ending.path ? ending.data : {};
    const said = gave !== null && typeof gave === "object" ? gave : text, isLong = typeof said === "string" && said.length > SAID;
    const shown = h("div", { class: "s-gave", tabindex: 0, role: "group", "aria-label": "What came of it" }, isLong ? outcome(`${said.slice(0, SAID)} …`) : outcome(said ?? ""));
    const all = isLong && button("Show all of it", () => { replace(shown, outcome(said)); all.remove(); }, "quiet");
    const how = (detail || reason === "cancelled") && ending.why;
    replace(reply, (said || how) && h("section", { class: "s-panel s-reply", "aria-label": "Reply" },
      how ? h("p", { class: runState(state).kind === "bad" ? "s-fault" : "s-soft" }, how) : null, said ? [shown, all] : null));
    top(); // what is proposed follows from why it ended
  }

  // What its model is writing now.
  function grow() {
    if (about?.state !== "running") return;
    const [one] = growing(({ run, text }) => run === id && text);
    update(reply, one && h("section", { class: "s-panel s-reply", "aria-label": "Being written" }, h("p", { class: "s-soft" }, `${one.agent === "files" ? "The agent" : one.agent} writes …`), grown({ ...one, calls: [] })));
    drawView();
  }

  // -- what stands above the tree ------------------------------------------------------------------

  function top() {
    if (!about) return;
    const t = about.totals;
    const is = about.state === "running", isOpen = !is && about.in_doubt.some((each) => !each.decided);
    const copied = about.forked_from && t.tokens > about.tokens; // a fork has spent what it did itself
    const figures = [
      ["time", duration(t.seconds)],
      ["tokens", number(copied ? about.tokens : t.tokens), t.input === null ? "adding up …" : copied ? `and ${number(t.tokens - about.tokens)} copied` : `${number(t.input)} in, ${number(t.output)} out`],
      ["cost", copied ? cost({ usd: about.usd, unpriced: about.tokens && t.unpriced }) : cost(t), copied ? "of its own" : !t.unpriced ? null : +t.usd ? `and ${number(t.unpriced)} tokens without a known price` : "its models have no known price"],
      ["model calls", number(t.model_calls)], ["tool calls", number(t.tool_calls), t.refused ? `${number(t.refused)} refused` : null], ["errors", t.input === null ? "…" : number(t.errors)],
    ];
    const more = is ? null : further(id, about.state, about.order, { why: ending?.data?.detail });
    const goesOn = !is && !more && !ENDED.has(about.state), known = about.order || TOLD.kinds.includes(about.kind), resumable = goesOn && !isOpen && known;
    update(goes, more, resumable && isAct(about) && resuming, canHold() && telling);
    update(head,
      h("div", { class: "s-row" }, isOpen ? stateBadge("in_doubt") : stateBadge(...stands(runs.get(id) || about)),
        h("span", { class: "s-soft" }, `${isAct(about) || about.kind.toLowerCase() === about.agent.toLowerCase() ? "" : `${about.kind} `}${agentOf(about)}${about.thread ? ` · thread ${about.thread}` : ""} · began ${day(about.began)} · ${entries(about.entries)} · ${duration(t.seconds)}${t.errors ? ` · ${count(t.errors, "error")}` : ""}`),
        h("span", { class: "s-spacer" }), canStop(about) ? button("Stop", () => stop(id), "danger") : null, canHold() && (about.paused ? button("Continue", () => ask("unpause"), "primary") : titled("It ends its step, and waits before the next one until somebody lets it go on", button("Pause", () => ask("pause")))), !is && titled("Tell the run again from its record: no model is asked, nothing is executed", button("Replay", replay)), titled("A copy that can be resumed with a changed program or another decision; this run stays as it is", button("Fork", () => fork())), resumable && !isAct(about) && button(about.state === "error" ? "Try again" : "Resume", () => resume(""), "primary"), home()),
      h("h3", { class: "s-text", "aria-level": 2 }, about.task || "(no task)", " ", h("code", { class: "s-soft" }, about.id)),
      h("p", { class: "s-soft" }, about.forked_from
        ? ["This is a fork of ", h("button", { type: "button", class: "s-link", onclick: () => go(["runs", about.forked_from]) }, about.forked_from), `, which stays as it is. ${ENDED.has(about.state) ? "" : `Resume it with ${isAct(about) ? "another message, " : ""}a changed program or another decision.`} `]
        : null,
        goesOn && !known && `A program of yours began it and can resume it with run_id="${about.id}".`,
        about.forked_from && ENDED.has(about.state) && "It has ended, so nothing is left to resume: fork it from a step before its end."));
    update(foot, h("dl", { class: "s-figures" }, figures.map(([name, text, beside]) => h("div", { class: name === "errors" && t.errors ? "bad" : null },
      h("dt", {}, name), h("dd", {}, text, beside && h("small", {}, beside))))),
    h("div", { class: "s-row s-links" }, compareWith(), about.tags?.condition && button("All cases", () => go(["runs", id, "cases"]), "quiet"), h("a", { class: "s-link", href: keyed(`runs/export?${at}`), download: true }, "Export"), !is && button("Share", () => showShares(view, id), "quiet")));
    showDoubts(doubts, id, is ? [] : about.in_doubt, (now) => {
      Object.assign(about, now);
      top();
      return fill();
    });
  }

  // Where it was begun, if that is a tab.
  function home() {
    const tab = isAct(about) ? "act" : TABS[about.kind];
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
      const found = all().find((each) => [each.id, named(each)].includes(said)) || (said && all().find((each) => `${each.id} ${each.task}`.toLowerCase().includes(words)));
      if (!found) throw new Error(said ? `no other run has this id or these words: ${said.slice(0, 80)}` : "write which run to compare with, or choose one");
      go(["runs", id, "compare", found.id]);
    };
    return h("form", { class: "s-row", onsubmit: attempt(compare) }, pick, h("button", { class: "s-button" }, "Compare"));
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

  async function resume(text) {
    const { run } = await call("act/resume", { run: id, text });
    await (run === id ? load() : go(["runs", run]));
  }

  return { load, add, become, fail, top, openStep, grow };
}
