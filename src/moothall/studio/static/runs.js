// The tab Runs: the runs of the journal, found by their words, state and agent; and the chosen one.
// Its address is /runs/ID, that of a step /runs/ID/N, that of a comparison /runs/ID/compare/OTHER, and that of an evaluation's cases /runs/ID/cases.

import { button, call, clock, count, date, day, dollars, duration, empty, fillWindow, h, number, replace, runState, stateBadge, titled, update } from "./dom.js";
import { on, onReset } from "./feed.js";
import { onGrowing } from "./growing.js";
import { arrange, cardSlot } from "./inbox.js";
import { agentOf, listed, runs, stands, toFind } from "./journal.js";
import { chart } from "./chart.js";
import { showCases, showComparison } from "./compare.js";
import { TOLD, go, onPlace, place } from "./place.js";
import { shownRun } from "./run.js";
import { walk } from "./steps.js";

const MODELS = 200; // runs of whose models is asked at once
const LISTED = 200; // runs in the list at once
const [ASKED, SHORT] = [1000, 500]; // runs of whose models is asked unasked, and their entries
const wrong = (each) => (each.errors ? h("span", { class: "s-badge bad" }, count(each.errors, "error")) : null); // of its steps
const tokens = (each) => (each.tokens ? `${number(each.tokens)} tokens` : "");
// How they are ordered: in words, by what, and what of it stands beside each.
const SORTS = {
  newest: ["the newest first", (each) => each.began], changed: ["the last changed first", (each) => each.changed],
  errors: ["most errors first", (each) => each.errors, wrong],
  cost: ["the dearest first", (each) => each.usd || each.tokens / 1e12, (each) => (+each.usd ? dollars(each.usd) : tokens(each))], tokens: ["most tokens first", (each) => each.tokens, tokens], seconds: ["the longest first", (each) => each.seconds, (each) => duration(each.seconds)],
};

const brief = (at) => (Date.now() / 1000 - at < 43200 ? clock(at).slice(0, 5) : date(at));
const made = (each) => (each.forked_from ? each.changed : each.began); // a copy has the times of its own entries
const entries = (n) => (n === 1 ? "1 entry" : `${number(n)} entries`);
const select = (label, options, onchange) => h("select", { class: "s-input", "aria-label": label, onchange }, options.map(([value, text]) => h("option", { value }, text)));
// The columns of the list after the task, while it is a table: each with its width, and its cell or its figure.
const COLUMNS = [
  { title: "Agent", width: "130px", cell: (each) => h("span", { class: "s-one" }, agentOf(each)) }, { title: "State", width: "176px", sort: "errors", cell: (each) => h("span", {}, stateBadge(...stands(each)), wrong(each)) },
  { title: "Began", sort: "newest", width: "64px", cell: (each) => h("time", { title: day(made(each)) }, brief(made(each))) }, { title: "Time", sort: "seconds", width: "80px", figure: (each) => (each.seconds ? duration(each.seconds) : "") },
  { title: "Tokens", sort: "tokens", width: "110px", figure: tokens }, { title: "Cost", sort: "cost", width: "70px", figure: (each) => (+each.usd ? dollars(each.usd) : "") },
];

export function mount(root) {
  const again = () => { most = LISTED; list(); };
  const filter = h("input", { class: "s-input", type: "search", placeholder: "Search: task, reply, agent, id", "aria-label": "Filter runs", oninput: () => { again(); seek(); } });
  const state = select("State", [["", "any state"]], again);
  const agent = select("Agent", [["", "any agent"]], again);
  const bounds = TOLD.bounds.map((each) => ({ ...each, input: select(each.label, each.choices, again) }));
  const sort = select("Order", Object.entries(SORTS).map(([name, [text]]) => [name, text]), again);
  const total = h("span", { class: "s-soft", role: "status" });
  const costs = button("What they cost", () => view.scrollIntoView(), "s-link s-to-costs"); // in a narrow window that is below them
  const rows = h("ul", { class: "s-runs-list", "aria-label": "Runs", onkeydown: walk });
  const view = h("section", { class: "s-runs-view s-scroll", "aria-label": "Run" });
  const [back, toTable] = ["quiet s-to-list", "s-link s-to-table"].map((kind) => button("All runs", () => go(["runs"]), kind)); // in a narrow window beside the run
  replace(root, h("aside", { class: "s-side" },
    h("div", { class: "s-tools" }, filter, h("div", { class: "s-row s-filters" }, state, agent, bounds.map((each) => each.input), sort), h("div", { class: "s-row" }, toTable, total, costs)),
    // By keys, the list of orders does what a click on a column does.
    h("div", { class: "s-columns", "aria-hidden": true }, h("span", {}, "Task"), COLUMNS.map(({ title, figure, sort: by }) => (by ? h("button", { type: "button", tabindex: -1, class: figure ? "number" : null, title: `Order: ${SORTS[by][0]}`, onclick: () => { sort.value = by; again(); } }, title) : h("span", { class: figure ? "number" : null }, title)))), rows), view);
  root.style.setProperty("--s-columns", `minmax(0, 1fr) ${COLUMNS.map(({ width }) => width).join(" ")}`);
  fillWindow(root);

  let most = LISTED;
  let fault = "";
  let chosen = null;
  let other = null; // the run that it is compared with
  let run = null; // the chosen one, as it is shown
  let due = 0;
  let found = null; // the ids that the server has found for the words, in their tasks and replies
  const slot = cardSlot(h("div"), (card) => card.run === chosen && card.kind !== "doubt" && slot.isConnected); // its doubts it shows itself

  // Tab leads to the chosen one, else to the first; arrow keys to the others, and Tab on to the run.
  let stop = null;
  const item = (each) => h("li", {}, h("button", { type: "button", tabindex: each.id === stop ? 0 : -1, "aria-current": String(each.id === chosen), "data-run": each.id, onclick: () => go(["runs", each.id]) },
    h("b", { class: "s-one" }, each.task || "(no task)"), chosen ? short(each) : columns(each),
    h("span", { class: "s-id s-one" }, [each.forked_from ? `${each.id}, a fork of ${each.forked_from}` : each.id, ...(chosen ? [] : [each.thread, each.attributes, entries(each.entries)])].filter(Boolean).join(" · "))));
  // Beside a chosen run a line, else a row of a table.
  const short = (each) => h("span", { class: "s-row s-soft" }, stateBadge(...stands(each)), sort.value === "errors" ? null : wrong(each), h("span", { class: "s-one" }, [agentOf(each), each.thread, each.attributes, entries(each.entries), +each.usd && sort.value !== "cost" ? dollars(each.usd) : null].filter(Boolean).join(" · ")), SORTS[sort.value][2] ? h("span", { class: "number" }, SORTS[sort.value][2](each)) : h("time", { title: day(made(each)) }, brief(made(each))));
  const columns = (each) => COLUMNS.map(({ cell, figure }) => (figure ? h("span", { class: "number" }, figure(each)) : cell(each)));

  let asked = 0;
  function seek() { // what a page does not know of a run: its whole reply
    const words = filter.value.trim(), mine = (asked += 1);
    found = null;
    if (words.length < 3) return;
    setTimeout(async () => {
      if (mine !== asked) return;
      const ids = await call(`runs/find?text=${encodeURIComponent(words)}`).catch(() => []);
      if (mine === asked) { found = new Set(ids); list(); }
    }, 250);
  }

  function list() {
    due = 0;
    const wanted = filter.value.trim().toLowerCase();
    const word = (each) => runState(...stands(each)).word;
    const words = (each) => `${each.id} ${each.kind} ${each.agent} ${agentOf(each)} ${each.thread || ""} ${each.attributes || ""} ${each.task} ${word(each)}`.toLowerCase();
    const least = bounds.filter(({ input }) => input.value).map(({ input, field, is_age }) => [field, is_age ? Date.now() / 1000 - 86400 * input.value : +input.value]);
    const all = [...runs.values()];
    options(state, "any state", all.map(word));
    options(agent, "any agent", all.map(agentOf));
    const key = SORTS[sort.value][1];
    let shown = all.reverse().filter((each) => (!wanted || words(each).includes(wanted) || found?.has(each.id)) && (!state.value || word(each) === state.value) && (!agent.value || agentOf(each) === agent.value) && least.every(([field, value]) => +each[field] >= value));
    if (sort.value !== "newest") shown = shown.sort((one, two) => key(two) - key(one));
    total.textContent = shown.length === runs.size ? count(runs.size, "run") : `${number(shown.length)} of ${count(runs.size, "run")}`;
    const focus = document.activeElement?.dataset.run;
    const listed = shown.slice(0, most);
    stop = listed.some((each) => each.id === chosen) ? chosen : listed[0]?.id;
    update(rows, listed.map(item),
      shown.length > most && h("li", {}, button(`Show ${number(Math.min(LISTED, shown.length - most))} more`, () => { most += LISTED; list(); }, "quiet")),
      fault ? h("li", {}, h("p", { class: "s-fault", role: "alert" }, fault))
        : !runs.size ? h("li", {}, empty("No runs yet. What you begin in the other tabs appears here, also while it is under way; so does every run of a program whose journal= is this studio's file."))
          : !shown.length && h("li", {}, empty("No run passes the filter.")));
    if (focus) rows.querySelector(`[data-run="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
    if (!chosen) overview(shown);
  }

  function options(at, any, given) {
    const names = [...new Set(given)].sort();
    const wanted = [["", any], ...names.map((each) => [each, each])];
    if (at.options.length === wanted.length && wanted.every(([value], n) => at.options[n].value === value)) return;
    const before = at.value;
    replace(at, wanted.map(([value, text]) => h("option", { value }, text)));
    at.value = names.includes(before) ? before : "";
  }

  // What the runs in the list have cost, over time, by agent, model, thread and day.
  const what = select("What is added up", [["tokens", "Tokens"], ["usd", "Cost"]], list);
  const by = select("By what", [["agent", "by agent"], ["model", "by model"], ["thread", "by thread"]], list);
  let [models, modelsOf] = [new Map(), 0]; // of a run what it spent by model, and of how many runs that is known
  async function learnModels(shown) {
    const missing = shown.filter((each) => each.tokens && models.get(each.id)?.entries !== each.entries).slice(0, MODELS);
    if (!missing.length || modelsOf) return;
    modelsOf = 1;
    try {
      const found = await call("runs/models", missing.map((each) => each.id));
      for (const each of missing) models.set(each.id, { entries: each.entries, spent: found[each.id] || [] });
      modelsOf = 0;
      list();
    } catch {
      setTimeout(() => { modelsOf = 0; }, 5000); // the header says that nobody answers
    }
  }

  // What each run has spent, by model once that is known. A cost of 0 is free if each of its models has a price; `unclear` says
  // that these are not known: of many runs, or of a long one, only a person asks by model.
  function spent(shown) {
    if (by.value !== "model") {
      if (models.size < ASKED) learnModels(shown.filter((each) => !+each.usd && each.entries <= SHORT && !models.has(each.id)));
      return shown.map((each) => {
        const its = models.get(each.id)?.spent;
        return { run: each.id, at: made(each), of: (by.value === "agent" ? agentOf(each) : each.thread) || "(none)", calls: each.model_calls, tokens: each.tokens, usd: +each.usd || (its?.every((one) => one.usd !== null) ? 0 : null), unclear: each.tokens > 0 && !+each.usd && !its };
      });
    }
    learnModels(shown);
    return shown.flatMap((each) => (models.get(each.id)?.spent || []).map((one) => ({ ...one, run: each.id, of: one.model, usd: one.usd && +one.usd })));
  }

  function overview(shown) {
    if (!shown.length) return void replace(view);
    const all = spent(shown), word = by.selectedOptions[0].text;
    const drawn = chart(`${what.selectedOptions[0].text} ${word}`, all.map(({ at, of, [what.value]: value }) => ({ at, of, value: value ?? 0 })), what.value === "usd" ? dollars : number, by.value === "model" ? 3600 : 1);
    const summed = (key, of = all) => {
      const sums = new Map();
      for (const each of of) {
        const sum = sums.get(key(each)) || { runs: new Set(), tokens: 0, usd: null, calls: 0, unpriced: 0, unclear: false };
        sum.runs.add(each.run);
        sum.tokens += each.tokens;
        if (each.usd !== null) sum.usd += each.usd;
        else if (each.unclear) sum.unclear = true;
        else sum.unpriced += each.tokens;
        sum.calls += each.calls;
        sums.set(key(each), sum);
      }
      return [...sums];
    };
    let isUnclear = false;
    const priced = ({ usd, unpriced, unclear }) => {
      if (unclear && !usd) { isUnclear = true; return "–"; }
      return unpriced && !usd ? (by.value === "model" ? "no price" : "not known") : unpriced ? titled(`${number(unpriced)} tokens have no known price`, h("span", {}, `${dollars(usd)} and more`)) : dollars(usd ?? 0);
    };
    const table = (title, all) => {
      const top = Math.max(1, ...all.map(([, sum]) => sum.tokens));
      return h("section", {}, h("h2", {}, title), h("table", { class: "s-table s-costs" },
        h("thead", {}, h("tr", {}, [title[3].toUpperCase() + title.slice(4), "Runs", "Model calls", "Tokens", "Cost", "Share"].map((each, at) => h("th", { class: at && at < 5 ? "number" : null }, each)))),
        h("tbody", {}, all.slice(0, 31).map(([name, sum]) => h("tr", {}, h("th", { scope: "row" }, name || "(none)"), [sum.runs.size, sum.calls, sum.tokens].map((each) => h("td", { class: "number" }, number(each))), h("td", { class: "number" }, priced(sum)),
          h("td", { class: "s-share" }, h("i", { style: `width: ${(100 * sum.tokens) / top}%` })))))));
    };
    const doubtful = shown.filter((each) => each.state === "in_doubt" && !each.job);
    update(view, h("div", { class: "s-overview" }, empty("Choose a run: its steps, what each was given and gave, what it cost."),
      doubtful.length > 0 && h("section", { class: "s-card", "aria-label": "In doubt" }, h("h2", {}, "In doubt"), h("p", {}, "These were cut off during an action. Whether it took effect is not known: decide about each."),
        h("ul", { class: "s-list" }, doubtful.slice(0, 31).map((each) => h("li", {}, button(each.task.slice(0, 120) || "(no task)", () => go(["runs", each.id]), "s-link"), " ", h("span", { class: "s-soft" }, `${agentOf(each)} · ${day(each.changed)}`))))),
      h("section", {}, h("div", { class: "s-row" }, h("h2", {}, "Over time"), what, by), drawn || h("p", { class: "s-soft" }, what.value === "usd" && all.some((each) => each.tokens) ? "No price of their models is known: look at their tokens." : "These runs have spent nothing that is known.")),
      table(`B${word.slice(1)}`, summed((each) => each.of).sort((one, two) => two[1][what.value] - one[1][what.value] || two[1].tokens - one[1].tokens)), table("By day", summed((each) => date(each.at), [...all].sort((one, two) => two.at - one.at))), isUnclear && h("p", { class: "s-soft" }, "–: the models are free, or their price is not known. By model it is told.")));
  }

  async function show([tab, id, step, more]) {
    if (tab !== "runs") return;
    const isPair = step === "compare" || step === "cases";
    const wanted = isPair ? null : Number(step) || null;
    root.classList.toggle("chosen", Boolean(id));
    const isOther = Boolean(id) !== Boolean(chosen); // then the list has another form
    if (!id) {
      [chosen, other, run] = [null, null, null];
      replace(view);
      const words = toFind();
      if (words !== null) {
        filter.value = words;
        for (const each of [state, agent, ...bounds.map(({ input }) => input)]) each.value = "";
        most = LISTED;
        seek();
      }
      arrange();
      return list();
    }
    const isNew = id !== chosen || !run || (isPair ? more ?? "" : null) !== other;
    [chosen, other] = [id, isPair ? more ?? "" : null];
    if (isOther) list();
    for (const each of rows.querySelectorAll("[data-run]")) {
      const is = each.dataset.run === id;
      each.setAttribute("aria-current", String(is));
      each.tabIndex = is ? 0 : -1;
    }
    if (isPair) {
      run = null;
      return (step === "cases" ? showCases(view, id) : showComparison(view, id, more)).catch((error) => replace(view, h("p", { class: "s-fault", role: "alert" }, error.message)));
    }
    if (isNew) {
      view.scrollTop = 0;
      run = shownRun(view, id, slot, back, wanted);
      arrange();
      await run.load();
    }
    if (wanted) await run?.openStep(wanted);
  }

  const mine = (batch, take) => batch.filter((each) => run && (each.run ?? each.id) === chosen).forEach(take);
  on("run", (batch) => {
    mine(batch, (each) => run.become(each));
    due ||= setTimeout(list, 100);
  });
  on("run_gone", (batch) => {
    mine(batch, () => run.fail("This run was deleted."));
    due ||= setTimeout(list, 100);
  });
  on("entry", (batch) => mine(batch, (each) => run.add(each.entry)));
  for (const topic of ["card", "card_gone", "job"]) on(topic, () => { list(); run?.top(); });
  onGrowing(() => run?.grow());
  on("run_fault", (batch) => mine(batch, (each) => run.fail(each.error)));
  onPlace((where) => show(where));
  onReset(async () => {
    try {
      await listed();
      fault = "";
    } catch (error) {
      fault = error.message;
    }
    run = null;
    list();
    await show(place());
  });
}
