// The steps of a run as a tree: a row for each call, below the part of the run that made it; opened, it
// shows what the call was given and gave.

import { button, call, count, day, dollars, duration, empty, h, json, modelName, number, replace, runState, stateBadge, titled, toast } from "./dom.js";
import { path } from "./place.js";
import { called, given, outcome } from "./values.js";

const CHARS = 100000; // of a text at once

// A value that a person may copy; of a very long one the beginning.
export function value(label, given) {
  const text = json(given);
  const shown = h("pre", { tabindex: 0, role: "region", "aria-label": label }, text.slice(0, CHARS));
  const more = text.length > CHARS && button(`Show all ${number(text.length)} characters`, () => { shown.textContent = text; more.remove(); }, "quiet");
  const copy = button("Copy text", async () => { await navigator.clipboard.writeText(text); toast(`${label}: copied`, false); }, "quiet");
  return h("div", { class: "s-value" }, h("div", { class: "s-row" }, h("h2", {}, label), copy), shown, more);
}

// Arrow keys go from row to row.
export function walk(event) {
  const all = [...event.currentTarget.querySelectorAll("[data-run], .s-entry > button")].filter((each) => each.offsetParent);
  const next = all[all.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] || NaN)];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

// The rows of run `id`: `run()` is what is known of it, and `forkAt(number)` copies it up to an entry.
export function stepTree(id, run, forkAt) {
  const root = h("div", { class: "s-tree", role: "group", "aria-label": "Steps", onkeydown: walk });
  const parts = new Map();
  const agents = new Map(); // of a part its agent
  const rows = []; // all of them, in order
  const kept = new Map(); // the entries that are shown, by number

  // The entries of a copy are written at once, so how long their steps took is not known.
  const lasted = (from, to) => (run().forked_from && to === run().totals.began ? "" : duration(to - from));

  // The part of a path; one that nobody announced stands below the run's own.
  function part(path, announced) {
    if (parts.has(path)) return parts.get(path);
    const [body, state] = [h("div"), h("span")];
    if (announced) agents.set(path, announced.data.agent);
    if (path) {
      const name = announced ? `${announced.data.part.split("/")[0]} · ${announced.data.agent}` : path;
      part(announced ? announced.path : "").body.append(h("details", { class: "s-run-part", open: true }, h("summary", {}, h("b", {}, name), " ", state), body));
    } else replace(root, body);
    parts.set(path, { body, state, steps: new Map(), turn: null, began: null });
    return parts.get(path);
  }

  function put(entry) {
    kept.set(entry.sequence, entry);
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
    if (kind === "permitted" && !run().forked_from) {
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

  const TYPES = { begun: "task", over: "end", started: "step", ended: "step", failed: "step", permitted: "person", decided: "person", answered: "person", heard: "told" };

  function row(where, entry) {
    const { data, kind } = entry;
    const about = data.about || {};
    const type = "action" in about ? "tool" : "model" in about ? "model" : entry.line.startsWith("set up: ") ? "set up" : kind === "state" && entry.fault ? "answer" : TYPES[kind] || kind;
    const turn = kind === "state" ? null : about.iteration ?? /^(?:[a-z_]+\.)?(\d+)(?:[./]|$)/.exec(data.key || "")?.[1] ?? null;
    const isNew = turn !== null && String(turn) !== where.turn;
    if (isNew) where.turn = String(turn);
    const made = { entries: [entry], type, line: h("span", { class: "s-one" }, brief(entry)), figures: [0, 1, 2].map(() => h("span", { class: "number" })), state: h("span") };
    if (kind === "started") made.state.append(h("span", { class: "s-badge busy" }, "under way"));
    if (type === "answer") made.state.append(stateBadge("failed"));
    rows.push(made);
    made.button = h("button", { type: "button", "aria-expanded": "false", onclick: () => open(made).then(() => made.node.scrollIntoView({ block: "nearest" })) },
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
    if (kind === "waits" || kind === "answered") { // an approval is answered by true or false
      const waits = [...kept.values()].find((each) => each.kind === "waits" && each.data.wait === data.wait)?.data;
      const name = waits?.action || actionOf(entry);
      const words = waits?.kind === "approval" ? line.replace(/ was answered(.*): true$/, " was permitted$1").replace(/ was answered(.*): false$/, " was refused$1") : line;
      return name && kind === "answered" ? words.replace(`step ${data.key}`, name) : words;
    }
    if (["permitted", "refused", "decided"].includes(kind)) return line.replace(`step ${data.key}`, actionOf(entry) || `step ${data.key}`);
    if (kind === "state") return line.replace("turn finished; the answer was unusable", "unusable");
    if (kind === "over") return line.replace(/^over, [a-z ]*[a-z]/, runState(data.reason).word);
    if (kind === "started" && data.about?.model === line) return modelName(line);
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

  // A message in words, and as it is; one of text alone is both.
  function message(each, n) {
    const label = `Input: message ${n + 1}, ${each.role}`, { content, name, tool_calls: calls } = each;
    if (Object.keys(each).length === 2) return value(label, content);
    return [h("h2", {}, label, name && h("b", { class: "s-action" }, ` ${name}`)), h("div", { class: "s-readable" }, calls ? [content && outcome(content), calls.map((one) => called(one.name, one.args))] : given(content)),
      h("details", {}, h("summary", {}, "Exactly as recorded"), value(label, each))];
  }

  // What a model was given: its messages one by one, those that an answer before had too behind a line.
  function prompt({ messages, tools, schema }) {
    const old = messages.findLastIndex((each) => each.role === "assistant"), all = messages.map(message);
    return [old > 0 ? [h("details", {}, h("summary", {}, `${count(old, "message")} that it was given before`), all.slice(0, old)), all.slice(old)] : all, ...more(tools, schema)];
  }
  const more = (tools, schema) => [
    tools?.length ? h("details", {}, h("summary", {}, `Tools: ${tools.map((each) => each.name).join(", ")}`), value("Input: tools", tools)) : null, schema ? value("Input: schema of the answer", schema) : null];

  // What came of a step, for people, above the record of it.
  function readable({ kind, data, line }) {
    const { result } = data;
    if (["permitted", "refused", "decided", "waits", "answered"].includes(kind)) return h("div", { class: "s-readable" }, h("p", {}, line), data.asked && called(data.action, data.args ?? data.asked));
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
      const found = await Promise.all(made.entries.map((each) => call(`runs/entry?run=${encodeURIComponent(id)}&sequence=${each.sequence}`)));
      const [began, ended] = [["started"], ["ended", "failed"]].map((kinds) => found.find((each) => kinds.includes(each.kind)));
      const [shown, input] = [[], []];
      const args = began?.data.args;
      const last = found[found.length - 1];
      if (made.type === "model") {
        const given = args?.messages ? args : await call(`runs/prompt?run=${encodeURIComponent(id)}&sequence=${last.sequence}&path=${encodeURIComponent(last.path)}`);
        input.push(given ? prompt(given) : h("p", {}, "What the model is given is recorded with its answer."));
      } else if (args !== undefined) input.push(value("Input", args));
      if (made.type !== "model") shown.push(input);
      if (ended) {
        const [words, record] = [readable(ended), value("Output", ended.data.result ?? ended.data.error ?? ended.data)];
        shown.push(ended.fault && h("p", { class: "s-fault" }, ended.fault), words && [h("h2", {}, "Output"), words], words ? h("details", {}, h("summary", {}, "Output, exactly as recorded"), record) : record);
      }
      if (!began && !ended) {
        const [words, record] = [readable(found[0]), value("Recorded", found[0].data)];
        shown.push(words, words ? h("details", {}, h("summary", {}, "Exactly as recorded"), record) : record);
      }
      const number = last.sequence;
      const fork = (text, tells, upto) => titled(tells, button(text, () => forkAt(upto), "quiet"));
      shown.push(h("div", { class: "s-row" }, button("Copy its address", async () => { await navigator.clipboard.writeText(location.origin + path("runs", id, number)); toast("The address of this step is copied.", false); }, "quiet"),
        began && fork("Begin again from this step", "A copy that has what was before this step, and does it anew", found[0].sequence - 1), fork("Fork after this step", "A copy that goes on after this step", number)), made.type === "model" && input);
      shown.push(h("details", {}, h("summary", {}, found.map((each) => `entry ${each.sequence}: ${each.kind}, ${day(each.at)}`).join("; ")), value("Entries", found)));
      replace(made.detail, shown);
    } catch (error) {
      replace(made.detail, h("p", { class: "s-fault", role: "alert" }, error.message));
    }
  }

  // A step without an end, once no process works on the run.
  const close = () => { for (const each of parts.values()) each.steps.forEach(cutOff); };

  function clear() {
    for (const each of [parts, kept]) each.clear();
    rows.length = 0;
    replace(root);
  }

  return { root, rows, kept, agentOf: (path) => agents.get(path), put, open, close, clear };
}
