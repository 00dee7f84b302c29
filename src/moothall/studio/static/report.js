// Beside a report: its sentences with the passages that they rest on, questions about it, and the plan
// of a run that waits for a person to let it begin.

import { attempt, button, call, clock, count, empty, h, plain, replace, sent, toast } from "./dom.js";
import { draft, drafted, keep } from "./drafts.js";
import { cardKind, draftOf } from "./inbox.js";
import { runs } from "./journal.js";
import { go } from "./place.js";
import { prose } from "./values.js";

const LABELS = { supported: ["supported", "good"], partly: ["partly supported", "warn"], unsupported: ["unsupported", "bad"], "not checked": ["not checked", "warn"] };
const HELD = 30; // questions of a run that are kept

// One sentence and its passage; what the sentence rests on is marked in it.
function source({ number, sentence, url, title, text, cut, label }) {
  const [word, kind] = LABELS[label] || [];
  const [before, window, after] = text.map(plain);
  return h("details", { class: "s-source" },
    h("summary", {}, h("b", {}, `[${number}] `), sentence.split("`").map((each, at) => (at % 2 ? h("code", {}, each) : each)), " ", word && h("span", { class: `s-badge ${kind}` }, word)),
    h("p", { class: "s-soft" }, title ? `${title} · ` : null, /^https?:\/\//i.test(url) ? h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, url) : url),
    h("blockquote", { class: "s-passage" }, cut[0] && "… ", before, window && h("mark", {}, window), after, cut[1] && " …"));
}

// `shown()` is the id of the run that is shown.
export function besideReport(shown) {
  const asked = new Map(); // by run what was asked: [{ question, answer, fault, at }]
  const sources = h("div", { class: "s-sources" });
  const line = h("input", { class: "s-input", maxlength: 2000, placeholder: "Ask this report a question", "aria-label": "Question about the report" });
  drafted(line, "ask");
  const answers = h("div", { class: "s-asked", role: "log", "aria-label": "Answers from the report" });
  const form = h("form", { class: "s-row s-ask", onsubmit: attempt(() => sent(line, question)) }, line,
    h("button", { class: "s-button primary" }, "Ask"), button("Research it", () => { line.value ||= asked.get(shown())?.[0]?.question || ""; return sent(line, follow); }));
  form.lastChild.title = "Begin new research on this question, where this one searched";
  const ask = h("section", { class: "s-panel", "aria-label": "Ask this report", hidden: true }, form, answers);
  let version = "";

  async function question(text) {
    if (!text.trim()) throw new Error("write a question first");
    const run = shown();
    const one = { question: text.trim(), at: Date.now() / 1000 };
    const all = asked.get(run) || [];
    asked.set(run, [one, ...all].slice(0, HELD));
    draw();
    try {
      one.answer = await call("research/ask", { run, question: one.question });
    } catch (error) {
      one.fault = error.message;
    }
    draw();
  }

  async function follow(text) {
    const { run } = await call("research/follow", { run: shown(), question: text });
    toast("New research has begun, where this one searched.", false);
    const there = () => (runs.has(run) ? go(["research", run]) : setTimeout(there, 100));
    there();
  }

  function draw() {
    const all = asked.get(shown()) || [];
    replace(answers, all.map(({ question, answer, fault, at }) => h("article", {}, h("header", { class: "s-row" }, h("b", {}, question), h("time", {}, clock(at))),
      fault ? h("p", { class: "s-fault" }, fault) : !answer ? h("p", { class: "s-soft" }, "looking in its passages …")
        : [prose(answer.text || "Nothing in its passages answers that."), answer.cited.length > 0 && answer.cited.map(source),
          answer.unsupported.length > 0 && h("p", { class: "s-soft" }, `${count(answer.unsupported.length, "sentence")} marked [unsupported]`),
          !answer.cited.length && h("p", { class: "s-soft" }, "“Research it” looks for more, where this research searched.")])));
  }

  async function show(state, isRunning) {
    const now = `${shown()} ${state.narrative?.at} ${isRunning ? "" : state.last}`;
    if (now === version) return;
    version = now;
    ask.hidden = !state.narrative;
    draw();
    if (!state.narrative) return replace(sources);
    const [found, bare] = await Promise.all(["cited", "uncited"].map((each) => call(`research/${each}?run=${encodeURIComponent(shown())}`)));
    if (version !== now) return;
    const open = new Set([...sources.querySelectorAll("details[open]")].map((each) => each.dataset.at));
    const unread = found.some((each) => each.label === "not checked") && h("p", { class: "s-soft" }, "Not checked: quotations, numbers, dates and names stand in the source. Read whether it means the same.");
    replace(sources, h("h2", {}, "Sources: what each sentence rests on"), unread || null, found.length ? found.map((each, at) => {
      const made = source(each);
      made.dataset.at = `${each.number} ${at}`;
      made.open = open.has(made.dataset.at);
      return made;
    }) : empty(`No sentence cites a source${isRunning ? " yet" : ""}.`),
      bare.length > 0 && h("details", {}, h("summary", {}, `${count(bare.length, "sentence")} without a source`), h("ul", { class: "s-list" }, bare.map((each) => h("li", { dir: "auto" }, each)))));
  }

  return { sources, ask, show: (state, isRunning) => show(state, isRunning).catch((error) => toast(error.message)) };
}

// -- the plan, before research begins ---------------------------------------------------------------

cardKind("plan", (card, decide) => {
  const field = (label, value, more = {}) => h("input", { class: "s-input", "aria-label": label, value, ...more });
  const gone = (row) => {
    const made = button("✕", () => {
      const [gone, list] = [row(), row().parentElement];
      const near = gone.nextElementSibling || gone.previousElementSibling;
      gone.remove();
      changed();
      (near?.lastElementChild || list.nextElementSibling)?.focus();
    }, "quiet");
    made.setAttribute("aria-label", "Remove");
    return made;
  };
  const tasks = h("ul", { class: "s-plain s-plan-rows", "aria-label": "Tasks of the plan" });
  const outline = h("ul", { class: "s-plain s-plan-rows", "aria-label": "Sections of the report" });
  const names = Object.keys(card.tools);

  function task({ tool, args, reasoning = "" }) {
    const inputs = h("span", { class: "s-row" });
    const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    const fill = (given) => replace(inputs, [...new Set([...Object.keys(given), ...(card.tools[pick.value] || []).slice(0, 1)])].map((name) =>
      field(`${name} of the task`, given[name] === undefined ? "" : text(given[name]), { "data-name": name, "data-text": typeof (given[name] ?? "") === "string" || null, placeholder: name })));
    const pick = h("select", { class: "s-input", "aria-label": "Tool of the task", onchange: () => fill({}) }, names.map((each) => h("option", { value: each }, each.replaceAll("_", " "))));
    pick.value = tool;
    fill(args);
    pick.hidden = names.length === 1 && tool === names[0]; // its name stands above
    const row = h("li", { class: pick.hidden ? "s-row" : "s-row picked", title: reasoning }, pick, inputs, gone(() => row));
    row.read = () => ({ tool: pick.value, reasoning, args: Object.fromEntries([...inputs.children].filter((each) => each.value !== "").map((each) => [each.dataset.name, each.dataset.text === undefined ? JSON.parse(each.value) : each.value])) });
    return row;
  }

  function section({ heading, about }) {
    const inputs = [field("Heading of the section", heading, { placeholder: "heading" }), field("What the section is about", about, { placeholder: "what it is about" })];
    const row = h("li", { class: "s-row" }, inputs, gone(() => row));
    row.read = () => ({ heading: inputs[0].value, about: inputs[1].value });
    return row;
  }

  const more = (list, make, given) => button(make === task ? "Add a task" : "Add a section", () => {
    list.append(make(given));
    list.lastChild.querySelector("input").focus();
  }, "quiet");
  const read = () => ({ tasks: [...tasks.children].map((each) => each.read()), outline: [...outline.children].map((each) => each.read()) });
  function changed() {
    try { keep(draftOf(card, "plan"), read()); } catch { /* JSON that is not whole yet */ }
  }
  const plan = draft(draftOf(card, "plan")) || card;
  replace(tasks, plan.tasks.map(task));
  replace(outline, plan.outline.map(section));
  for (const list of [tasks, outline]) for (const what of ["input", "change"]) list.addEventListener(what, changed);
  const begin = button("Begin research", () => decide({ choice: "begin", ...read() }), "primary");
  begin.dataset.key = "a";
  const text = h("input", { class: "s-input", "data-key": "r", "data-draft": "again", "aria-label": "What is to change", placeholder: "What is to change, in words" });
  return [
    h("summary", { class: "s-card-title" }, h("b", {}, "Research"), " shows its plan", h("time", {}, clock(card.asked))),
    h("p", { class: "s-soft s-for" }, "to find out: ", card.objectives.map((each, at) => [at ? "; " : null, h("bdi", {}, each)])),
    h("h2", {}, names.length === 1 ? `Tasks: ${names[0].replaceAll("_", " ")}` : "Tasks"), tasks, names.length > 0 && more(tasks, task, { tool: names[0], args: {} }),
    card.by_model || card.outline.length ? [h("h2", {}, "Sections of the report"), outline, more(outline, section, { heading: "", about: "" })] : null,
    h("div", { class: "s-answer" }, h("div", { class: "s-row" }, begin, h("span", { class: "s-spacer" }), button("Stop", () => decide({ choice: "stop" }), "danger")), card.by_model && h("div", { class: "s-row" }, text, button("Plan anew", () => decide({ choice: "again", text: text.value })))),
  ].flat().filter(Boolean);
});
