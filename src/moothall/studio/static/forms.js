// The forms at the top of a tab, as the server lists them: fields, what is folded, what is wrong.

import { call, h, replace } from "./dom.js";
import { draft, drafted, forget } from "./drafts.js";

const forms = new Map(); // by tab and name
let ids = 0;

// Show a tab's forms as they are now; what a person has filled in stays.
export async function showForms(tab, root) {
  const found = await call(`${tab}/forms`);
  const drawn = found.map((told) => {
    const key = `${tab}/${told.name}`;
    const form = forms.get(key) || makeForm(tab, told, () => showForms(tab, root));
    form.update(told, !forms.has(key));
    forms.set(key, form);
    return form.root;
  });
  const before = [...root.children];
  if (drawn.length !== before.length || drawn.some((each, at) => each !== before[at])) replace(root, drawn);
}

// Fold or unfold one, unless a person is writing in it.
export function fold(tab, name, open) {
  const form = forms.get(`${tab}/${name}`);
  if (form && !form.root.contains(document.activeElement)) form.open(open);
}

// Open one with these values, so that a person changes what they want and begins it again.
export function fillForm(tab, name, values) {
  forms.get(`${tab}/${name}`)?.fill(values);
}

// What is in a field for a number; what is none is sent as it is written, and refused in words.
function numeric({ value, validity }) {
  const text = value.trim();
  if (text === "") return validity.badInput ? "?" : null;
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

function makeField(told, key) {
  const id = `field-${ids += 1}`;
  const first = draft(key) ?? told.value; // what it has at first
  const about = told.about ? h("small", { id: `${id}-about` }, told.about) : null;
  const common = { class: "s-input", id, name: told.name, "aria-describedby": about ? `${id}-about` : null, autocomplete: "off" };
  let input, list = null;
  if (told.kind === "check") input = h("input", { type: "checkbox", id, name: told.name, checked: told.value === true });
  else if (told.kind === "text") input = h("textarea", { ...common, rows: 3, placeholder: told.hint, value: told.value ?? "" });
  else if (told.kind === "choice") input = h("select", common);
  else if (told.kind === "number" || told.kind === "whole")
    input = h("input", told.kind === "whole" ? { ...common, type: "number", step: 1, placeholder: told.hint, value: told.value ?? "" }
      : { ...common, type: "text", inputmode: "decimal", placeholder: told.hint, value: told.value ?? "" }); // of a number, a browser drops the comma that a person writes for a point
  else {
    if (told.kind === "named") list = h("datalist", { id: `${id}-list` });
    input = h("input", { ...common, type: "text", placeholder: told.hint, value: told.value ?? "", list: list ? list.id : null, spellcheck: false });
  }
  const label = h("label", { for: id }, told.label);
  const root = h("div", { class: `s-field ${told.kind} ${told.wide ? "wide" : ""}` },
    told.kind === "check" ? [input, label] : [label, input], list, about);
  function options(given) {
    const made = given.map(([value, text]) => h("option", { value, label: list && value !== text ? text : null }, list ? null : text));
    const at = list || input;
    if (at.children.length === made.length && made.every((each, n) => each.isEqualNode(at.children[n]))) return;
    const before = input.value;
    replace(at, made);
    if (!list) input.value = [before, first, told.value].find((each) => given.some(([value]) => value === each)) ?? given[0]?.[0] ?? "";
  }
  drafted(input, key);
  const read = () => (told.kind === "check" ? input.checked
    : told.kind === "number" || told.kind === "whole" ? numeric(input)
      : input.value);
  return { told, root, input, options, read };
}

function makeForm(tab, told, reload) {
  const kept = `form/${tab}/${told.name}/`;
  const wasWritten = told.fields.some((each) => draft(kept + each.name) !== undefined);
  const fields = told.fields.map((each) => makeField(each, kept + each.name));
  const id = `form-${tab}-${told.name}`;
  const fault = h("p", { class: "s-fault", role: "alert", hidden: true });
  const about = h("p", { class: "s-soft s-form-about" });
  const start = h("button", { class: "s-button primary" }, told.button);
  const [first, more] = [fields.filter((each) => !each.told.more), fields.filter((each) => each.told.more)];
  const under = more.length ? h("details", { class: "s-under" }, h("summary", {}, "More"), h("div", { class: "s-grid" }, more.map((each) => each.root))) : null;
  const body = h("form", { id, class: "s-form-body", novalidate: true, onsubmit: begin, hidden: true },
    h("div", { class: "s-grid" }, first.map((each) => each.root)), under, h("div", { class: "s-row s-form-end" }, start, about), fault);
  body.addEventListener("input", () => wrong("")); // of the try before
  body.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) body.requestSubmit(); });
  const title = h("button", { type: "button", class: "s-form-title", "aria-expanded": "false", "aria-controls": id, onclick: () => { open(body.hidden); if (!body.hidden) { begins(); reload().then(() => document.activeElement === document.body && begins()).catch(() => {}); } } }, told.title);
  const root = h("section", { class: "s-form", id: `${tab}-${told.name}` }, title, body);

  let was = told.open;

  // Who opens a form writes; on a phone that would bring the keyboard over it.
  function begins() {
    if (matchMedia("(pointer: coarse)").matches) return;
    first[0].input.focus();
    first[0].input.select?.();
  }

  function open(is) {
    body.hidden = !is;
    title.setAttribute("aria-expanded", String(is));
    root.classList.toggle("open", is);
  }

  function wrong(text, name) {
    fault.hidden = !text;
    fault.textContent = text;
    (fields.find((each) => each.told.name === name)?.root || body).append(fault); // at its field, or below them all
    for (const each of fields) {
      const is = each.told.name === name;
      if (is) each.input.setAttribute("aria-invalid", "true");
      else each.input.removeAttribute("aria-invalid");
      if (is && under?.contains(each.input)) under.open = true;
      if (is) each.input.focus();
    }
  }

  async function begin(event) {
    event.preventDefault();
    if (start.disabled) return; // Ctrl-Enter needs no button
    wrong("");
    start.disabled = true;
    try {
      const values = Object.fromEntries(fields.map((each) => [each.told.name, each.read()]));
      const { run } = await call(`${tab}/forms/${told.name}`, values);
      forget(kept);
      document.dispatchEvent(new CustomEvent("form-begun", { detail: { tab, name: told.name, run, values } }));
      const isHere = document.activeElement === document.body || root.contains(document.activeElement);
      open(false);
      if (isHere) title.focus(); // else a person has gone on, such as to the first card
      await reload();
    } catch (error) {
      wrong(error.message, error.field);
    } finally {
      start.disabled = false;
    }
  }

  function fill(values) {
    open(true);
    wrong("");
    for (const { told: { name: its, kind }, input } of fields) {
      if (kind === "check") input.checked = Boolean(values[its]);
      else input.value = values[its] ?? "";
      input.dispatchEvent(new Event("change")); // it is kept, like what is written
      if (under?.contains(input) && input.value) under.open = true;
    }
    first[0].input.focus();
    root.scrollIntoView({ block: "nearest" });
  }

  for (const each of fields) if (each.told.kind === "choice") each.input.addEventListener("focus", () => reload().catch(() => {}));
  return {
    root,
    open,
    fill,
    update(now, isNew) {
      about.textContent = now.about;
      about.hidden = !now.about;
      now.fields.forEach((each, at) => each.options.length && fields[at].options(each.options));
      if (isNew) open(now.open || wasWritten);
      else if (was && !now.open && !root.contains(document.activeElement)) open(false); // begun on another page
      was = now.open;
    },
  };
}
