// Elements, calls and words that every part of the page uses. Nothing received becomes HTML: text
// is set as text, `plain`, and a link that a stranger wrote shows where it goes.

import { BASE } from "./place.js";

const given = (children) => children.flat(9).filter((each) => each !== null && each !== undefined && each !== false)
  .map((each) => (typeof each === "string" ? plain(each) : each));

export function h(tag, attrs = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") made[name] = value;
    else if (name === "style") made.style.cssText = value; // an attribute is not permitted by the page's policy
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...given(children));
  return made;
}

export function svg(tag, attrs, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attrs)) (name === "style" ? (made.style.cssText = value) : made.setAttribute(name, value));
  made.append(...children);
  return made;
}

export function replace(node, ...children) {
  node.replaceChildren(...given(children));
  return node;
}

const INSIDE = ".s-round, .s-lane, .s-runs-head > .s-row, .s-runs-list *, .s-answers > section"; // of these, what is in them
// Show these; what is shown already stays, with what is read, marked, written or pressed there.
export function update(node, ...children) {
  const fresh = given(children);
  fresh.forEach((child, at) => {
    const shown = node.childNodes[at];
    if (child.open !== undefined) child.open = Boolean(shown?.open);
    const [was, is] = [shown, child].map((each) => each?.querySelectorAll?.("details") || []);
    if (was.length === is.length) is.forEach((each, n) => { each.open = was[n].open; }); // what is within a row, too
    if (!shown) node.append(child);
    else if (shown.isEqualNode(child)) return;
    else if (shown.matches?.(INSIDE) && shown.cloneNode().isEqualNode(child.cloneNode())) update(shown, ...child.childNodes);
    else shown.replaceWith(child);
  });
  while (node.childNodes.length > fresh.length) node.lastChild.remove();
}

// What JSON says; an integer that JavaScript would round stays as it is written: what a person permits is what they read.
const exact = (name, value, { source } = {}) => (JSON.rawJSON && Number.isInteger(value) && !Number.isSafeInteger(value) ? JSON.rawJSON(source) : value);
export const parsed = (text) => (/\d{16}/.test(text) ? JSON.parse(text, exact) : JSON.parse(text));

// A request of the studio, with the key of this page; where another token is asked for now, the
// page that asks for it comes.
export async function request(to, options = {}) {
  const headers = { "X-Moothall-Key": localStorage.getItem("moothall-studio-key") || "", ...options.headers };
  let answer;
  try {
    answer = await fetch(`${BASE}studio/${to}`, { credentials: "same-origin", ...options, headers });
  } catch {
    throw new Error("the studio does not answer: is its program running?");
  }
  if (answer.status === 401) location.replace(`${BASE}login?to=${encodeURIComponent(location.pathname.slice(BASE.length - 1))}`);
  return answer;
}

// A call of the studio; throws an Error whose message is for a person, with `column` where there is one.
export async function call(path, body, method) {
  const options = { method: method || (body === undefined ? "GET" : "POST") };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const answer = await request(path, options);
  const type = answer.headers.get("content-type") || "";
  const told = type.includes("json") ? parsed(await answer.text()) : { error: (await answer.text()).trim() };
  if (isGood(answer)) return told;
  if (told.ends && await agreed(told.error)) return call(`${path}${path.includes("?") ? "&" : "?"}ends=${told.ends}`, body, method);
  throw Object.assign(new Error(told.ends ? "It goes on as it was." : told.error || `failed (${answer.status})`), told);
}

// Whether a request was done; what is refused in words has a status that is no error to a browser.
export const isGood = (answer) => answer.ok && !answer.headers.has("x-moothall-refused");

// Ask a person whether something is to end for what they want.
function agreed(text) {
  return new Promise((tell) => {
    const shown = h("dialog", { class: "s-dialog s-asks", "aria-label": "Something ends", onclose: () => { root.remove(); tell(shown.returnValue === "yes"); } }, h("p", {}, text),
      h("div", { class: "s-row" }, h("button", { type: "button", class: "s-button", autofocus: true, onclick: () => shown.close("") }, "Cancel"), h("button", { type: "button", class: "s-button danger", onclick: () => shown.close("yes") }, "End it and go on")));
    const root = h("div", { class: "s-root" }, shown);
    document.body.append(root);
    shown.showModal();
  });
}

// The address of a link or a socket, which cannot have a header, with the key of this page.
export const keyed = (to) => `${BASE}studio/${to}&key=${localStorage.getItem("moothall-studio-key")}`;

// Tell a person what a click came to; screen readers read it.
export function toast(text, bad = true) {
  let shelf = document.getElementById("studio-toasts");
  if (!shelf) {
    shelf = h("div", { id: "studio-toasts", class: "s-root", role: "status", "aria-live": "polite" });
    document.body.append(shelf);
  }
  const shown = h("div", { class: bad ? "s-toast bad" : "s-toast" }, text);
  shelf.append(shown);
  setTimeout(() => shown.remove(), 8000);
}

// The second click of a double click is for the button of the first: one that has come in its place gets none. Nor does it, or a
// key that is held, send a form twice.
let clicked = null;
addEventListener("click", (event) => {
  const on = event.target.closest?.("button") ?? null;
  if (event.detail < 2) clicked = on;
  else if (on !== clicked) {
    event.preventDefault();
    event.stopImmediatePropagation();
  } else if (on?.form && on.type === "submit") event.preventDefault();
}, true);
addEventListener("keydown", (event) => {
  if (event.repeat && event.key === "Enter" && event.target.matches?.("form input, form select, form button")) event.preventDefault();
}, true);

// What is wrong and is said at its field already.
export class AtField extends Error {}

// Do what a click or a form asks for; what goes wrong is told.
export const attempt = (work) => async (event) => {
  if (event?.type === "submit") event.preventDefault();
  for (const each of document.querySelectorAll(".s-toast.bad")) each.remove(); // of the try before
  // What is disabled loses the focus: a button gets it back, and a list that a person goes through by arrow keys stays.
  const button = event?.currentTarget?.matches?.("button") ? event.currentTarget : null;
  const focused = button && button === document.activeElement;
  if (button) button.disabled = true;
  try {
    return await work(event);
  } catch (error) {
    if (!(error instanceof AtField)) toast(error.message);
  } finally {
    if (button) button.disabled = false;
    if (focused && document.activeElement === document.body) button.focus({ preventScroll: true }); // its work may lead elsewhere
  }
};

// Does a work, one at a time and with a pause between; called meanwhile, once more afterwards.
export function oneAtATime(work, pause, fail = (error) => toast(error.message)) {
  let [busy, due] = [false, false];
  return async function again() {
    if (busy) return void (due = true);
    [busy, due] = [true, false];
    try {
      await work();
    } catch (error) {
      fail(error);
    } finally {
      setTimeout(() => {
        busy = false;
        if (due) again();
      }, pause);
    }
  };
}

// Send what is written in a line, which is empty at once: what is written meanwhile is another
// message. What could not be sent comes back.
export async function sent(line, send) {
  const text = line.value;
  line.value = "";
  try {
    const came = await send(text);
    line.dispatchEvent(new Event("change")); // its draft is of what is written by now
    return came;
  } catch (error) {
    line.value ||= text;
    throw error;
  }
}

// Made once: of ten thousand runs each has a date.
const [CLOCK, MONTH] = [{ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }, { month: "short" }].map((each) => new Intl.DateTimeFormat("en", each));
export const clock = (at) => CLOCK.format(at * 1000);
export const date = (at) => `${new Date(at * 1000).getDate()} ${MONTH.format(at * 1000)}`;
export const day = (at) => `${date(at)} ${clock(at)}`;

// The state of a run, of its reason to end or of a part of it: the word for it, the kind of its badge, and what it stands for.
const STATES = [
  ["running", "busy", "running"], ["waiting for you", "warn", "waiting"], ["answered, waits for its program", "busy", "answered"], ["waits for a result or a moment", "busy", "awaited"], ["finished", "good", "done terminal terminated ended"],
  ["failed", "bad", "error unreadable failed"], ["stopped", "warn", "stopped cancelled"], ["its program has changed", "warn", "mismatch"], ["in doubt", "bad", "in_doubt"],
  ["at its limit", "warn", "budget deadline max_iterations max_loops"],
];
const KNOWN = new Map(STATES.flatMap(([word, kind, all]) => all.split(" ").map((each) => [each, { word, kind }])));
// `now` says how one that is under way stands: `waiting` (its card is open), `paused` or `stopping`.
export function runState(state, now) {
  const is = (state === "running" && now) || state;
  return KNOWN.get(is) || { word: is.replaceAll("_", " "), kind: "warn" };
}
export function stateBadge(state, now) {
  const { word, kind } = runState(state, now);
  return h("span", { class: `s-badge ${kind}` }, word);
}

// What would turn a line around, or is not seen at all, is shown by its number: what a person permits is what they read.
const HIDDEN = /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu; // the two joiners are part of words and signs
export const plain = (text) => text.replace(HIDDEN, (each) => `[U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
export const json = (value) => plain(typeof value === "string" ? value : JSON.stringify(value, null, 1));
// What came of a call, to be read: of a list of texts each in a line.
export const result = (value) => json(Array.isArray(value) && value.length && value.every((each) => typeof each === "string") ? value.join("\n") : value ?? "");
// Why it ended, as a person says it who has set the limit.
export const why = (text) => text.replace(/(?:max_iterations: )?no answer after (\d+)(?: iterations?)?/, (_, n) => `its model has answered ${+n === 1 ? "once" : `${n} times`}, the limit, and was not done`);
export const modelName = (name) => (/^https?:\/\//.test(name) && name.split("#")[1]) || name; // of one behind an address, the name alone
export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

export const number = (n) => n.toLocaleString("en");
export const dollars = (usd) => (+usd === 0 ? "$0" : +usd < 0.01 ? `$${(+usd).toPrecision(2)}` : `$${(+usd).toFixed(2)}`);
// What totals cost; without a known price of any of their tokens, that is not known.
export const cost = ({ usd, unpriced }) => (unpriced && !+usd ? "not known" : dollars(usd));

export function duration(seconds) {
  if (seconds > 0 && seconds < 0.001) return `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function button(text, work, kind = "") {
  return h("button", { type: "button", class: `s-button ${kind}`, onclick: attempt(work) }, text);
}

// What stands over the page until it is closed.
export function dialog(root, label, title, ...children) {
  const shown = h("dialog", { class: "s-dialog", "aria-label": label, onclose: () => shown.remove() }, h("header", { class: "s-row" }, h("h2", {}, title), button("Close", () => shown.close(), "quiet")), children);
  root.append(shown);
  shown.showModal();
  return shown;
}

// What says more where a pointer rests on it; a screen reader reads it, too.
export function titled(text, made) {
  made.title = text;
  return made;
}

export const meter = (label, value, most, kind = "") => h("div", { role: "meter", class: kind, "aria-label": label, "aria-valuemin": 0, "aria-valuemax": most, "aria-valuenow": value },
  h("i", { style: `width: ${(100 * value) / most}%` }));

// Empty states say what to do.
export const empty = (...text) => h("p", { class: "s-empty" }, ...text);

// What scrolls an element: itself, or the page where a narrow window shows all of it.
export const scroller = (element) => (getComputedStyle(element).overflowY === "visible" ? document.scrollingElement : element);

// Give an element the height that the window has left below its top: `--s-room`.
export function fillWindow(root, least = 360) {
  const fit = () => {
    if (!root.offsetParent) return;
    const top = root.getBoundingClientRect().top + window.scrollY;
    root.style.setProperty("--s-room", `${Math.max(least, window.innerHeight - top - 20)}px`);
  };
  const sizes = new ResizeObserver(fit); // of all that may push it down
  for (const each of [document.body, ...document.querySelectorAll("#studio-header, #studio-tabs")]) sizes.observe(each);
  new IntersectionObserver(fit).observe(root);
  window.addEventListener("resize", fit);
}
