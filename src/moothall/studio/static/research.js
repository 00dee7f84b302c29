// The tab Research: how far a run is, made of what is recorded of it, and the report.

import { attempt, button, call, cost, count, day, dollars, duration, empty, fillWindow, h, isGood, keyed, meter, number, oneAtATime, replace, request, runState, toast, update } from "./dom.js";
import { examples } from "./examples.js";
import { on, onReset } from "./feed.js";
import { fold } from "./forms.js";
import { growing, grown, onGrowing } from "./growing.js";
import { canStop, further, known, listed, runs, stands, stop } from "./journal.js";
import { arrange, cardSlot } from "./inbox.js";
import { TOLD, go, onPlace, place as address } from "./place.js";
import { Progress } from "./progress.js";
import { besideReport } from "./report.js";

const STEPS = { plan: "Plan", research: "Research", update: "Update", narrate: "Narrate", evaluate: "Evaluate" };
const DOES = {
  plan: "making tasks of the objectives", research: "executing the tasks", update: "adding what was found",
  narrate: "writing what is known", evaluate: "judging how well each objective is understood",
};
const HOW = "moothall-how"; // whether a person has unfolded how an ended one went, over a reload
const KEPT = "moothall-research"; // the run that a person has chosen, over a reload
const isResearch = (each) => each.kind === "Researcher";
const FOLDED = 12; // with more tasks than these, earlier plans are folded; more resources are, too
const [BEFORE, AFTER] = [["stepper", "objectives", "remarks", "plan", "check"], ["resources", "facts"]]; // the sentences with their sources stand between
const PAUSE = 250; // milliseconds between two looks at a run
const GOES_ON = new Set(["cancelled", "error"]);
const taskState = (state) => (["waiting", "not done"].includes(state) ? { word: state, kind: "" } : runState(state));

export function mount(root) {
  const choose = h("select", { class: "s-input s-which", "aria-label": "Research run", onchange: () => go(["research", choose.value]) });
  const badge = h("span", { class: "s-badge", role: "status" });
  const tools = h("span", { class: "s-row" });
  const parts = Object.fromEntries(Object.keys(PARTS).map((name) => [name, h("div")]));
  const files = h("div", { class: "s-row s-files", role: "group", "aria-label": "The report as a file", hidden: true });
  const report = h("section", { class: "s-panel s-report", "aria-label": "Narrative" });
  const draft = h("div", { class: "s-draft", tabindex: 0, role: "region", "aria-label": "Draft" });
  const beside = besideReport(() => run);
  const body = h("div", { class: "s-researching" },
    h("div", { class: "s-scroll s-how", id: "research-how", tabindex: 0, role: "region", "aria-label": "How far it is" },
      cardSlot(h("div"), (card) => card.run !== null && card.run === run), BEFORE.map((name) => parts[name]), beside.sources, AFTER.map((name) => parts[name])),
    h("div", { class: "s-written" }, files, draft, report, beside.ask));
  const nothing = h("div", {}, empty("No research yet. Write what you want to find out above, one objective a line, say where to look, and press Start. ",
    "Without a model it quotes and cites what it reads, and costs nothing."), examples());
  // Once it is over, the report is the page.
  const unfold = (is) => {
    body.classList.toggle("unfolded", is);
    how.setAttribute("aria-expanded", String(is));
  };
  const how = h("button", { type: "button", class: "s-button", hidden: true, "aria-controls": "research-how", onclick: () => {
    const is = !body.classList.contains("unfolded");
    sessionStorage.setItem(HOW, is ? "open" : "");
    unfold(is);
    arrange();
  } }, "How it was found");
  unfold(Boolean(sessionStorage.getItem(HOW)));
  const head = h("div", { class: "s-row s-choose" }, h("label", { class: "s-soft" }, "Run", choose), badge, how, tools);
  replace(root, head, body, nothing);
  fillWindow(body, 420);

  const newest = () => [...runs.values()].filter(isResearch).reverse();
  let run = null; // the id of the one that is shown
  let isChosen = false; // by a person: then a newer one does not take its place
  let drawn = {}; // the run, and the version of its report, that are shown

  // -- which run -----------------------------------------------------------------------------------

  function list() {
    const [first] = newest(), kept = sessionStorage.getItem(KEPT);
    const [tab, id] = address();
    if (run === null && tab === "research" && runs.has(id)) [run, isChosen] = [id, true];
    if (run === null && runs.has(kept)) [run, isChosen] = [kept, true];
    if (run === null && first) fold("research", "new", false);
    if (!isChosen && first) run = first.id;
    drawList();
    arrange();
    return soon();
  }

  function drawList() {
    const all = newest();
    head.hidden = body.hidden = all.length === 0;
    nothing.hidden = all.length > 0;
    update(choose, all.map((each) => h("option", { value: each.id },
      `${each.state === "running" ? "▸ " : ""}${each.task.split("\n")[0].slice(0, 90)} (${day(each.began)})`)));
    if (run !== null) choose.value = run;
  }

  onPlace(([tab, id]) => { if (tab === "research" && runs.has(id) && (id !== run || !isChosen)) { pick(id); drawList(); } });

  function pick(id) {
    [run, isChosen] = [id, true];
    sessionStorage.setItem(KEPT, id);
    soon();
    arrange();
  }

  // The next run that begins is the one that this page has started.
  document.addEventListener("form-begun", ({ detail }) => {
    if (detail.tab !== "research") return;
    isChosen = false;
    sessionStorage.removeItem(KEPT);
    go(["research"]);
    list();
  });

  // -- how far it is -------------------------------------------------------------------------------

  let progress = new Progress(null);
  const soon = oneAtATime(async () => {
    const wanted = run;
    if (wanted === null) return;
    const about = await known(wanted); // before its entries: none of a run that has ended is missed
    const { entries, forms } = await call(`research/entries?run=${encodeURIComponent(wanted)}&after=${progress.run === wanted ? progress.last : 0}`);
    if (wanted !== run) return;
    if (progress.run !== run) progress = new Progress(run);
    progress.want(about.order?.objectives || []);
    entries.forEach((each) => progress.take(each));
    draw({ ...about, ...progress.told(about.state === "running"), forms });
  }, PAUSE);

  function draw(state) {
    const { over } = state;
    const isRunning = state.state === "running";
    if (drawn.run !== run) {
      drawn = { run };
      for (const each of [report, tools]) replace(each);
      body.firstChild.scrollTop = 0;
    }
    state.job = runs.get(run)?.job;
    const how = stands({ id: run, state: state.state, job: state.job });
    const { word, kind } = runState(...how);
    state.waits = how[1] === "waiting";
    badge.className = `s-badge ${kind}`;
    badge.textContent = over && over.reason !== "error" && !isRunning ? `${word}: ${over.why}` : word;
    drawTools(state, isRunning);
    for (const [name, make] of Object.entries(PARTS)) update(parts[name], make(state, isRunning));
    drawReport(state, isRunning);
    drawDraft(isRunning);
    beside.show(state, isRunning);
  }

  function drawTools(state, isRunning) {
    const goesOn = !isRunning && (state.state === "stopped" || GOES_ON.has(state.over?.reason));
    const query = `?run=${encodeURIComponent(run)}`;
    update(tools,
      h("button", { type: "button", class: "s-link", onclick: () => go(["runs", run]) }, "Steps and cost"),
      canStop(state) ? button("Stop", () => stop(run)) : null,
      isRunning && !state.job && !canStop(state) ? h("span", { class: "s-soft" }, "begun by a command or program, which alone can stop it") : null,
      goesOn ? button("Resume", () => call("act/resume", { run }), "primary") : null,
      isRunning ? null : further(run, state.over?.reason, state.order, { done: state.done, why: state.over?.detail }),
      state.state === "in_doubt" ? button("Decide what is in doubt", () => go(["runs", run]), "primary") : null);
    files.hidden = !state.narrative;
    update(files, state.narrative ? [h("span", { class: "s-soft" }, "The report:"), button("Copy", () => copied(query)), Object.entries(state.forms).map(([kind, title]) =>
      h("a", { class: "s-button", href: keyed(`research/report.${kind}${query}`), download: true, "aria-label": `Download ${title}` }, `↓ ${title}`))] : null);
  }

  async function copied(query) {
    const answer = await request(`research/report.md${query}`);
    if (!isGood(answer)) throw new Error((await answer.json()).error);
    await navigator.clipboard.writeText(await answer.text());
    toast("The report is copied as Markdown.", false);
  }

  function drawReport(state, isRunning) {
    const { narrative } = state;
    body.classList.toggle("written", Boolean(narrative) && !isRunning);
    how.hidden = !narrative || isRunning;
    const scheme = document.documentElement.classList.contains("dark") ? "dark" : "light";
    const version = `${narrative?.at}.${isRunning ? "" : state.last}&scheme=${scheme}`;
    if (drawn.report === version) return;
    drawn.report = version;
    if (!narrative) {
      replace(report, empty(isRunning
        ? "What is known is written here when the tasks of the first iteration have ended."
        : "Nothing was written before it ended."));
      return;
    }
    // Shown once it is there: the one before stands meanwhile. No script runs in it, whatever it holds.
    const before = [...report.children];
    const frame = h("iframe", {
      class: "s-page", title: "Report, loading", sandbox: "allow-popups allow-popups-to-escape-sandbox",
      src: keyed(`research/page?run=${encodeURIComponent(run)}&at=${version}`),
    });
    frame.addEventListener("load", () => {
      before.forEach((each) => each.remove());
      frame.title = "Report";
    }, { once: true });
    report.append(frame);
  }

  function drawDraft(isRunning) {
    const [one] = isRunning ? growing((each) => each.run === run && each.text) : [];
    update(draft, one && [h("h2", {}, "Being written"), grown({ ...one, calls: [] })]);
    draft.scrollTop = draft.scrollHeight;
  }

  onGrowing(() => drawDraft(true));
  new MutationObserver(soon).observe(document.documentElement, { attributeFilter: ["class"] }); // light or dark
  for (const topic of ["card", "card_gone"]) on(topic, soon);
  on("entry", (batch) => batch.some((each) => each.run === run) && soon());
  on("job", (batch) => batch.filter((each) => each.run === run).forEach(({ reason, text }) => {
    if (reason === "error") toast(text);
    soon();
  }));
  on("run", (batch) => {
    const ours = batch.filter(isResearch);
    const isListed = (each) => [...choose.options].some((option) => option.value === each.id);
    if (!ours.every(isListed)) return void attempt(list)();
    if (ours.length) drawList();
    if (ours.some((each) => each.id === run)) soon();
  });
  on("run_gone", () => attempt(list)());
  onReset(attempt(async () => { await listed(); await list(); }));
}

// -- the parts -------------------------------------------------------------------------------------

function stepper(state, isRunning) {
  const most = state.order?.iterations;
  const of = most ? ` of ${Math.max(most, state.iteration)}` : "";
  const { over } = state;
  return [
    h("ol", { class: "s-stages", "aria-label": "Steps of an iteration" }, Object.entries(STEPS).map(([name, title]) =>
      h("li", { class: state.step === name ? "now" : null, "aria-current": state.step === name ? "step" : null }, title))),
    h("p", { role: "status" }, isRunning
      ? [h("b", {}, `Iteration ${state.iteration}${of}: `), state.waits ? "waits for you" : DOES[state.step], state.asking && !state.waits ? `, by ${state.asking}` : "", "."]
      : [h("b", {}, count(state.done, "iteration")), over ? (over.detail && !over.why.includes(over.detail) ? `: ${over.detail}` : ".") : ": its process ended; it can be resumed."]),
  ];
}

const percent = (part) => `${Math.round(100 * part)} %`;

function objectives({ objectives: all }) {
  return [h("h2", {}, "Objectives"), h("ul", { class: "s-plain", "aria-label": "Objectives" }, all.map(({ topic, expertise, reached, estimated }) => {
    if (estimated) return h("li", { class: "s-objective", dir: "auto" }, topic);
    const [before, now] = [[0, ...reached].at(-2) ?? 0, expertise].map(percent);
    return h("li", { class: "s-objective" }, h("span", { dir: "auto" }, topic), h("span", { class: "s-soft number" }, `understood ${now}${reached.length > 1 && before !== now ? `, before ${before}` : ""}`),
      meter(`Understood: ${topic}`, expertise, 1));
  }))];
}

function remarks({ remarks: all, generated, heard }) {
  if (!all.length && !generated.length && !heard.length) return [];
  const last = all[all.length - 1];
  return [
    generated.length ? h("p", { class: "s-soft" }, "Smaller objectives: ", generated.map((each) => each.topic).join("; ")) : null,
    last ? h("p", {}, h("b", {}, "Remark: "), last.text) : null,
    all.length > 1 ? h("details", {}, h("summary", {}, "Earlier remarks"), all.slice(0, -1).map((each) => h("p", {}, `${each.iteration}: ${each.text}`))) : null,
    heard.map((text) => h("p", {}, h("b", {}, "Message from the user: "), text)),
  ];
}

const counts = ({ read, found }) => [read && `${read} read`, found > read && `${found - read} found`].filter(Boolean).join(", ");

function plan({ tasks }) {
  if (!tasks.length) return [];
  const iterations = [...new Set(tasks.map((each) => each.iteration))].reverse();
  const titled = (n) => (iterations.length > 1 ? `Plan of iteration ${n}` : "Plan");
  const folded = (n, list) => (n === iterations[0] || tasks.length <= FOLDED ? [h("h2", {}, titled(n)), list] : h("details", { class: "s-earlier" }, h("summary", {}, titled(n)), list));
  return iterations.map((n) => folded(n,
    h("ul", { class: "s-plain s-tasks", "aria-label": `Tasks of iteration ${n}` }, tasks.filter((each) => each.iteration === n).map((each) => h("li", {},
      h("span", { class: `s-badge ${taskState(each.state).kind}` }, taskState(each.state).word),
      h("span", {}, each.tool.replaceAll("_", " "), ": ", Object.entries(each.args).map(([name, value], at, all) => `${at ? ", " : ""}${all.length > 1 ? `${name} ` : ""}${typeof value === "string" ? `“${value}”` : JSON.stringify(value)}`).join("")),
      h("span", { class: "s-soft" }, each.error || (counts(each) || (each.state === "ended" ? "nothing found" : each.why))))))));
}

function check({ narrative }) {
  if (!narrative) return [];
  const { citations, unsupported, uncited } = narrative;
  return [
    h("h2", {}, "What its sources support"),
    h("p", {}, `${count(citations, "citation")} checked, ${count(unsupported.length, "sentence")} marked [unsupported], ${uncited} without a source.`),
    unsupported.length ? h("ul", { class: "s-plain s-tasks" }, unsupported.map(([sentence, why]) => h("li", {},
      h("span", { class: "s-badge bad" }, "unsupported"), h("span", {}, sentence), h("span", { class: "s-soft" }, why)))) : null,
  ];
}

function resources({ resources: all, found, read }) {
  if (!found) return [];
  const list = h("ul", { class: "s-plain s-tasks", "aria-label": "Resources" }, all.map((each) => h("li", {},
    h("span", { class: `s-badge ${each.visited ? "good" : ""}` }, each.visited ? "read" : "found"),
    each.title ? h("span", {}, each.title) : null, place(each.url))));
  return [
    h("h2", {}, `Resources: ${counts({ read, found })}`),
    found > all.length ? h("p", { class: "s-soft" }, `The last ${all.length} are shown.`) : null,
    FOLDED < all.length ? h("details", { class: "s-earlier" }, h("summary", {}, "Show them"), list) : list,
  ];
}

// Where a resource is: a link only of a page, and its text is where it goes.
function place(url) {
  if (/^https?:\/\//i.test(url)) return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow", class: "s-url" }, url);
  let path = url;
  try {
    if (url.startsWith("file://")) path = decodeURIComponent(url.slice("file://".length));
  } catch {
    // as it is written
  }
  return h("span", { class: "s-url s-soft" }, path);
}

const LIMITS = { usd: ["Cost", dollars], seconds: ["Time", duration] }; // in words of their own

function facts({ totals, order }) {
  const limits = TOLD.limits.map(({ name, label, order: key }) => {
    const [title, words] = LIMITS[name] || [label, number], limit = order?.[key];
    const spent = name === "usd" ? cost(totals) : name in totals ? words(totals[name]) : "";
    return (spent || limit) && [title, [spent, limit && words(limit)].filter(Boolean).join(" of ")];
  });
  const rows = [
    ...limits,
    ["Calls", `${count(totals.model_calls, "model call")}, ${count(totals.tool_calls, "task")}`],
    order && ["Set up", order.in_words],
    order?.role && ["Role", order.role],
  ].filter(Boolean);
  return [h("h2", {}, "Spent, and set up"), h("dl", { class: "s-args" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))];
}

const PARTS = { stepper, objectives, remarks, plan, check, resources, facts };
