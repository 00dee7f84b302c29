// What models are writing now, as far as it is written: of each answer its run, its agent, to whom it is
// and in which thread, its text, and the actions that its reply has called.

import { call, h, oneAtATime } from "./dom.js";
import { on, onReset } from "./feed.js";

const all = new Map();
const listeners = [];
const keyOf = ({ run, agent, receiver, addressee, to, thread }) => JSON.stringify([run, agent, receiver, addressee, to, thread]);

export const growing = (wanted) => [...all.values()].filter(wanted);
export function onGrowing(work) {
  listeners.push(work);
  work(); // it may be known already
}
const tell = () => listeners.forEach((each) => each());

// Its text and what it has called; `none` is said while there is neither.
export const grown = ({ text, calls }, none = "…") => [calls.length > 0 && h("p", { class: "s-soft" }, "calls ", h("b", { class: "s-action" }, calls.join(", "))),
  h("div", { class: "s-text s-growing", dir: "auto" }, text || (calls.length ? "" : none))];

const load = oneAtATime(async () => {
  const found = await call("growing");
  all.clear();
  for (const each of found) all.set(keyOf(each), each);
  tell();
}, 200, () => {});

on("growing", (batch) => {
  let isWhole = true;
  for (const told of batch) {
    const key = keyOf(told), before = all.get(key)?.text ?? "";
    if (told.over) all.delete(key);
    else if (told.at > before.length) isWhole = false;
    else all.set(key, { ...told, text: before.slice(0, told.at) + told.text });
  }
  if (isWhole) tell();
  else load();
});
onReset(load);
