// Calls in doubt: their run was cut off while they ran, and a person decides about each.

import { button, call, count, h, parsed, update } from "./dom.js";
import { TOLD } from "./place.js";

export const DOUBT = `The run was cut off while this was running, so nobody knows whether it took effect. Look, and decide what becomes of it when the run is resumed. ${TOLD.doubts.map((each) => `${each.label}: ${each.meaning}.`).join(" ")}`;

export const decidedHere = new Set(); // the ids of runs of which this page decides a call, until the card of that is gone

// What can be decided about a call; `decide` gets the word, and the value that it states.
export function choices(line, decide) {
  const stated = h("input", { class: "s-input", "data-draft": "result", placeholder: "its result", "aria-label": `Result of ${line}` });
  const state = (word) => {
    if (!stated.value.trim()) throw new Error("write the result of the call first: null, if it has none");
    let value = stated.value;
    try { value = parsed(value); } catch { /* a text */ }
    return decide(word, value);
  };
  const [plain, stating] = [false, true].map((which) => TOLD.doubts.filter((each) => Boolean(each.value) === which));
  return h("div", { class: "s-row" }, plain.map((each) => button(each.label, () => decide(each.word))), stated, stating.map((each) => button(each.label, () => state(each.word))));
}

// Show in `root` those of run `id` that are open, and those decided; `decided` gets what is known of the run then.
export function showDoubts(root, id, all, decided) {
  function doubt(each) {
    const decide = async (word, value) => {
      decidedHere.add(id);
      const decision = { [each.number]: value === undefined ? word : { [word]: value } };
      decided(await call(`runs/decide?run=${encodeURIComponent(id)}`, decision).catch((error) => {
        decidedHere.delete(id);
        throw error;
      }));
    };
    return h("article", { class: "s-card", "aria-label": `Call in doubt ${each.number}` }, h("p", {}, h("code", {}, each.line)), choices(each.line, decide));
  }

  const [open, made] = [false, true].map((which) => all.filter((each) => each.decided === which));
  update(root, open.length > 0 && [h("h2", {}, "In doubt"), h("p", {}, DOUBT), open.map(doubt)],
    made.length > 0 && h("details", {}, h("summary", { class: "s-soft" }, `${count(made.length, "call")} in doubt decided. You may decide otherwise until the run is resumed`), h("p", {}, DOUBT), made.map(doubt)));
}
