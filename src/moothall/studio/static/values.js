// What agents and models give, for people: Markdown as elements that are made here, JSON as a list, a
// table or fields. Nothing of it becomes HTML; a link is shown with its address, as text.

import { call, h, json, parsed, replace, result } from "./dom.js";
import { amount } from "./units.js";

const SIGNS = /[*_`#|>~]|^\s*[-+]\s|^\s*\d+[.)]\s|\]\(/m; // without one, a text is no Markdown
const TAGS = new Set(["p", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "table", "thead", "tbody", "tr", "th", "td", "br", "hr"]);
const MOST = 20000;
const ITEMS = 200; // of a list or table at once
const CELL = 120; // characters: longer texts stand in fields, not in a table
const DEEP = 5;
const known = new Map(); // what the server has read, by the text
let waiting = new Map(); // elements, by the text that they show

function node(each) {
  if (typeof each === "string") return each;
  const [name, children, address] = each;
  if (name === "a") return [children.map(node), address && String(children) !== address ? ` (${address})` : null];
  if (/^h[1-6]$/.test(name)) return h("p", { class: "s-head" }, children.map(node));
  return TAGS.has(name) ? h(name, name === "table" ? { class: "s-table" } : {}, children.map(node)) : children.map(node);
}

function show(root, text, tree) {
  if (!tree) return;
  root.className = "s-prose";
  replace(root, tree.map(node));
}

async function ask() {
  const asked = waiting;
  waiting = new Map();
  const texts = [...asked.keys()].slice(0, 200);
  const found = await call("prose", texts).catch(() => []);
  texts.forEach((text, at) => {
    known.set(text, found[at] ?? null);
    for (const each of asked.get(text)) if (each.isConnected) show(each, text, found[at]);
  });
  if (known.size > 2000) known.clear();
}

// A text that a person or a model wrote.
export function prose(written) {
  const text = written.replace(/\[\^(\d+)\^\]/g, "[$1]"); // a report's footnotes
  const root = h("div", { class: "s-text", dir: "auto" }, text);
  if (text.length > MOST || !SIGNS.test(text)) return root;
  if (known.has(text)) show(root, text, known.get(text));
  else {
    if (!waiting.size) setTimeout(ask, 20);
    waiting.set(text, [...(waiting.get(text) || []), root]);
  }
  return root;
}

// What somebody said, folded where it would fill a screen.
const [LONG, LINES] = [1500, 25];
export function folded(text, shown) {
  if (typeof text !== "string" || (text.length <= LONG && text.split("\n").length <= LINES)) return shown;
  const body = h("div", { class: "s-folded" }, shown);
  const all = h("button", { type: "button", class: "s-link", onclick: () => {
    body.className = "";
    body.tabIndex = -1;
    body.focus({ preventScroll: true }); // a keyboard goes on from here
    all.remove();
  } }, "Show all of it");
  return [body, all];
}

const isPlain = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isShort = (value) => value === null || typeof value !== "object";
const cell = (value) => (isShort(value) ? (value === null ? "" : String(value)) : json(value));
const rest = (all) => (all.length > ITEMS ? h("p", { class: "s-soft" }, `and ${all.length - ITEMS} more`) : null);

// A value as a list, a table or fields; null where its text says as much.
export function structure(value, depth = 0) {
  if (depth > DEEP) return null;
  const inner = (each) => (isShort(each) ? h("div", { class: "s-text" }, cell(each)) : Object.keys(each).length ? structure(each, depth + 1) || h("pre", {}, json(each)) : "(none)");
  if (Array.isArray(value) && value.length) {
    const some = value.slice(0, ITEMS);
    if (value.every((each) => Array.isArray(each) && each.length > 1 && each.length < 6 && each.every(isShort)))
      return h("div", { class: "s-shown" }, h("table", { class: "s-table" }, h("tbody", {}, some.map((each) => h("tr", {}, each.map((part) => h("td", { class: typeof part === "number" ? "number" : null }, cell(part))))))), rest(value));
    const names = isPlain(value[0]) ? Object.keys(value[0]) : [];
    if (names.length && names.length < 9 && value.every((each) => isPlain(each) && Object.entries(each).every(([name, part]) => names.includes(name) && isShort(part) && String(part).length <= CELL)))
      return h("div", { class: "s-shown" }, h("table", { class: "s-table" }, h("thead", {}, h("tr", {}, names.map((each) => h("th", {}, each)))), h("tbody", {}, some.map((each) => h("tr", {}, names.map((name) => h("td", {}, cell(each[name] ?? null))))))), rest(value));
    if (value.every(isShort)) return h("div", { class: "s-shown" }, h("ul", {}, some.map((each) => h("li", {}, cell(each)))), rest(value));
    if (value.every(isPlain)) return h("div", { class: "s-shown" }, some.map((each) => h("div", { class: "s-item" }, inner(each))), rest(value));
  }
  if (isPlain(value) && Object.keys(value).length && Object.keys(value).length < 30)
    return h("dl", { class: "s-args s-shown" }, Object.entries(value).map(([name, each]) => (each === null ? null : [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, inner(each))])));
  return null;
}

// What JSON in a text holds; any other value as it is.
function read(value) {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return value;
  try { return parsed(value); } catch { return value; }
}

// What a call gave: JSON, also as a text, as what it holds; any other text word for word.
export function given(value) {
  const it = read(value);
  if (it === null || it === undefined || it === "" || (typeof it === "object" && !Object.keys(it).length)) return h("p", { class: "s-soft s-nothing" }, "nothing");
  return structure(it) || h("pre", {}, result(value));
}

const MOST_LINES = 1e6; // pairs of lines that are compared

// A text that another one takes the place of, line by line: what goes, what comes, what stays.
export function difference(old, now) {
  const [a, b] = [old, now].map((each) => each.split("\n"));
  let [start, end] = [0, 0];
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1;
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const rows = a.slice(0, start).map((line) => [" ", line]);
  if (left.length * right.length > MOST_LINES) rows.push(...left.map((line) => ["−", line]), ...right.map((line) => ["+", line]));
  else {
    const common = [...Array(left.length + 1)].map(() => new Uint32Array(right.length + 1)); // of the ends from i and j on
    for (let i = left.length - 1; i >= 0; i--) for (let j = right.length - 1; j >= 0; j--)
      common[i][j] = left[i] === right[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    for (let [i, j] = [0, 0]; i < left.length || j < right.length;) {
      if (i < left.length && left[i] === right[j]) [rows[rows.length], i, j] = [[" ", left[i]], i + 1, j + 1];
      else if (i < left.length && (j === right.length || common[i + 1][j] >= common[i][j + 1])) rows.push(["−", left[i++]]);
      else rows.push(["+", right[j++]]);
    }
  }
  rows.push(...a.slice(a.length - end).map((line) => [" ", line]));
  return h("pre", { class: "s-diff" }, rows.map(([sign, line]) => h({ "−": "del", "+": "ins" }[sign] || "span", {}, `${sign} `, h("i", {}, line))));
}

// Texts of which one takes the place of the other, such as `old` and `new`, or `oldText` and `newText`: the names of both, by the first.
function edits(args) {
  const found = Object.keys(args).map((name) => [name, name.replace(/old/i, (each) => ({ old: "new", Old: "New" })[each] || "NEW")]);
  return new Map(found.filter(([old, now]) => old !== now && [old, now].every((name) => typeof args[name] === "string")));
}
// Whether a value is a list of such pairs, and of nothing else.
const areEdits = (value) => Array.isArray(value) && value.length > 0 && value.every((each) => each && Object.keys(each).length === 2 && edits(each).size === 1);

const BRIEF = 60; // characters of what stands large on a card: an amount, an address, a name
const isBrief = (value) => typeof value === "number" || (typeof value === "string" && value.length <= BRIEF && !value.includes("\n"));

// The arguments of a call, exactly, as rows of a list: an edit as a difference; beside each what it `was` before a person changed it.
// `formats` has the formats of their schemas, by name.
export function argsOf(args, was, formats = {}) {
  const pairs = edits(was ? {} : args), shown = new Set(pairs.values());
  const differences = (each) => [...edits(each)].map(([old, now]) => difference(each[old], each[now]));
  return Object.entries(args).filter(([name]) => !shown.has(name)).map(([name, value]) => {
    if (pairs.has(name)) return [h("dt", {}, `${name} and ${pairs.get(name)}`), h("dd", {}, difference(value, args[pairs.get(name)]))];
    if (!was && areEdits(value)) return [h("dt", {}, name), h("dd", {}, value.map(differences))];
    return [h("dt", {}, name), h("dd", { class: isBrief(value) ? "s-brief" : null }, h("pre", {}, amount(json(value), formats[name]) || json(value) || "(empty)"),
      was && json(was[name] ?? null) !== json(value) ? h("pre", { class: "s-was" }, h("span", { class: "s-soft" }, "was "), h("s", {}, json(was[name] ?? "(not given)"))) : null)];
  });
}

// A call that a model asks for: its name and its arguments.
export const called = (name, args) => h("div", { class: "s-called" }, h("span", { class: "s-soft" }, "calls "), h("b", { class: "s-action" }, name), args && Object.keys(read(args)).length ? given(args) : null);

// What somebody said: JSON, also as a text, as what it holds; any other text as prose.
export function outcome(value) {
  const it = read(value);
  if (it !== null && typeof it === "object") return structure(it) || h("pre", {}, json(it));
  return prose(it === null || it === undefined ? "" : String(it));
}
