// Three examples that run at a click, without a model: what stands in a tab that has nothing to show yet.

import { button, call, h } from "./dom.js";
import { go } from "./place.js";
import { playTown } from "./whatif.js";

const begun = async (tab, at) => go([at, (await call(`${tab}/example`, {})).run]);
const ALL = [
  ["A refund that you permit", "An agent asks you before it pays.", () => begun("act", "runs")],
  ["A report on three documents", "Each sentence with its source.", () => begun("research", "research")],
  ["A town that lives", "Hundreds of citizens, by rules.", () => playTown()],
];

// The examples, as a list of buttons.
export const examples = () => h("section", { class: "s-invite", "aria-label": "Examples" }, h("h2", {}, "Examples, without a model"),
  h("ul", { class: "s-tries" }, ALL.map(([title, about, run]) => h("li", {}, button(title, run), h("span", { class: "s-soft" }, about)))));
