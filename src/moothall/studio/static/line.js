// The line that a person writes: it grows with its text, sends by Enter, looks back at what was sent, completes
// what begins with a slash, and says what is wrong with it.

import { attempt, call, h, json, replace, sent, toast } from "./dom.js";
import { drafted } from "./drafts.js";
import { on } from "./feed.js";

const WIDE = 640; // pixels from which the longer hint has room
let made = 0;

on("state", (now) => { if (now === "open") for (const each of document.querySelectorAll(".s-line[aria-invalid]")) each.dispatchEvent(new Event("connected")); });

// An agent's id as a slash line has it.
export const quoted = (id) => (/^[^\s".:\\]+$/.test(id) ? id : JSON.stringify(id));

// A line with its button. `lineOf` makes the slash line of what is written, `then` is done once it is sent; `hints` are the
// words in the empty line, of a wide one and of a narrow one.
export function writtenLine({ key, label, hints, lineOf, then = () => {} }) {
  const id = `choices-${(made += 1)}`;
  const line = h("textarea", {
    class: "s-input s-line", rows: 1, "aria-label": label, autocomplete: "off", "aria-autocomplete": "list", "aria-controls": id, spellcheck: false,
    title: "Enter sends, Tab completes.",
  });
  let wide = 0;
  new ResizeObserver(() => { // no word of it is cut off
    if (wide !== line.clientWidth) requestAnimationFrame(grow); // it may have been hidden
    wide = line.clientWidth;
    line.placeholder = hints[wide > WIDE ? 0 : 1];
  }).observe(line);
  drafted(line, key);
  const fault = h("p", { class: "s-fault", role: "alert", hidden: true });
  const choices = h("ul", { class: "s-choices", id, role: "listbox", "aria-label": "Completions", hidden: true });
  const root = h("div", { class: "s-writes" }, h("form", { class: "s-write", onsubmit: (event) => send(event) }, choices, line, h("button", { class: "s-button primary" }, "Send")), fault);

  function clear() {
    fault.hidden = true;
    line.removeAttribute("aria-invalid");
  }

  // Write the call of an action, with the arguments that it needs, and stand at the first.
  function insert(agent, name, told) {
    const all = told && typeof told.args === "object" ? Object.entries(told.args) : [];
    const args = all.filter(([, kind]) => kind?.default === undefined); // the others may be left out
    line.value = `/${quoted(agent)}.${name} ` + args.map(([key, kind]) => `${key}:${kind?.type === "string" ? '""' : ""}`).join(" ");
    line.focus();
    toValue(0);
    grow();
  }

  // Stand at the first argument without a value after a place; whether there is one.
  function toValue(from) {
    const found = line.value.startsWith("/") && /:(?:(?=\s|$)|"(?="))/.exec(line.value.slice(from));
    if (found) line.setSelectionRange(...Array(2).fill(from + found.index + found[0].length));
    return Boolean(found);
  }

  const lines = [];
  let place = 0;

  const send = attempt(async () => {
    const text = line.value;
    if (!text.trim()) return;
    hide();
    lines.push(text); // at once: it is looked back at, and its answers may come, before it is known to be sent
    place = lines.length;
    try {
      const { notice } = await sent(line, () => call("space/line", { line: lineOf(text) }));
      if (notice) toast(notice);
    } catch (error) {
      place = line.value === text ? lines.lastIndexOf(text) : lines.length; // it is in the line again, or one step back
      fault.hidden = false;
      fault.textContent = error.message;
      if (error.column && lineOf(text) === text) line.setSelectionRange(error.column - 1, error.column);
      line.setAttribute("aria-invalid", "true");
      line.focus();
      return;
    }
    clear();
    grow();
    line.focus();
    then();
  });

  function grow() {
    line.style.height = "auto";
    if (line.scrollHeight) line.style.height = `${Math.min(line.scrollHeight + line.offsetHeight - line.clientHeight, 160)}px`; // hidden, it has no height to take
  }

  let found = [];
  let picked = 0;
  let length = 0;
  let before = null; // what stood before the cursor when they were found

  function hide() {
    choices.hidden = true;
    found = [];
    line.removeAttribute("aria-activedescendant");
  }

  async function complete() {
    const now = line.value.slice(0, line.selectionStart);
    if (!now.trimStart().startsWith("/")) return hide();
    const told = await call(`space/complete?text=${encodeURIComponent(now)}`);
    if (now !== line.value.slice(0, line.selectionStart)) return;
    [found, length, picked, before] = [told.found, told.length, 0, now];
    choices.hidden = !found.length;
    replace(choices, found.map((each, at) => h("li", { role: "option", id: `${id}-${at}`, onmousedown: (event) => { event.preventDefault(); picked = at; take(); } }, each)));
    pick(0);
  }

  function pick(by) {
    if (!found.length) return;
    picked = (picked + by + found.length) % found.length;
    for (const [at, each] of [...choices.children].entries()) each.setAttribute("aria-selected", at === picked);
    choices.children[picked].scrollIntoView({ block: "nearest" });
    line.setAttribute("aria-activedescendant", `${id}-${picked}`);
  }

  async function take() {
    if (before !== line.value.slice(0, line.selectionStart)) await complete(); // typed on since
    if (!found.length) return;
    const at = line.selectionStart;
    line.setRangeText(found[picked], at - length, at, "end");
    hide();
    grow();
    complete().catch(hide);
  }

  line.addEventListener("blur", hide); // they would cover what stands there
  line.addEventListener("connected", clear); // it said that nobody answers
  line.addEventListener("input", () => {
    grow();
    clear();
    hide();
    complete().catch(hide);
  });
  line.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const listed = found.length > 0;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    } else if (event.key === "Tab" && !event.shiftKey && !listed && toValue(line.selectionEnd)) event.preventDefault();
    else if (event.key === "Tab" && !event.shiftKey && (listed || (before !== line.value && line.value.startsWith("/")))) {
      event.preventDefault();
      take().catch(hide);
    } else if (event.key === "Escape") hide();
    else if (event.key === "ArrowDown" && listed) { event.preventDefault(); pick(1); }
    else if (event.key === "ArrowUp" && listed) { event.preventDefault(); pick(-1); }
    else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && !line.value.includes("\n") && lines.length) {
      event.preventDefault();
      place = Math.max(0, Math.min(lines.length, place + (event.key === "ArrowUp" ? -1 : 1)));
      line.value = lines[place] || "";
      grow();
    }
  });

  // Other words in the empty line.
  function hint(...words) {
    hints = words;
    line.placeholder = hints[wide > WIDE ? 0 : 1];
  }

  return { root, field: line, insert, hint };
}
