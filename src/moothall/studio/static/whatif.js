// What if: a rule of a town is tried at a click. The town goes on under it, and beside it lives a copy of
// the town as it would be without it; the charts show both. And the wish to see a town play, from another tab.

import { attempt, button, h, replace, titled, toast } from "./dom.js";
import { go } from "./place.js";

const PAID = 5000; // cents, to each: half of what the government of a new town has for each
const CLOSED = { school: "Schools close", shop: "Shops close", restaurant: "Restaurants close", park: "Parks close" };

// What a person wants of a town, on another tab: that it plays, and what is tried there, by its label.
let wanted = null;
export function playTown(trial = "") {
  wanted = { trial };
  go(["society"]);
}
export function wish() {
  const was = wanted;
  wanted = null;
  return was;
}

// Buttons for what may be tried in the town of a plan; `beside()` puts a copy of the town beside it, `post` changes the town.
export function whatIf(beside, post) {
  const root = h("section", { class: "s-whatif", "aria-label": "What if", hidden: true });
  const trial = (label, change) => button(label, async () => {
    await beside();
    await post("intervene", change);
    await post("control", { do: "play" });
    toast(`${label}: from the next step on. The second map and the dashed lines are the same town without it.`, false);
  }, "s-small");
  return {
    root,
    // Try one of them, by its label.
    begin: (label) => [...root.querySelectorAll("button")].find((each) => each.textContent === label)?.click(),
    offer(plan, isOwn) {
      root.hidden = Boolean(isOwn);
      const of = (kind) => plan.places.filter((each) => plan.kinds[each[1]] === kind).map(([id]) => id);
      const shut = Object.entries(CLOSED).map(([kind, label]) => [label, of(kind)]).filter(([, places]) => places.length);
      replace(root, h("h2", {}, "What if …"), h("div", { class: "s-row" }, shut.map(([label, close]) => trial(label, { close, hours: 0 })), trial("Each gets 50 dollars", { pay: [["government", "everyone", PAID]] })));
    },
  };
}

// A button that shuts a place, or opens one that is shut, which `isShut()` says; `post` changes the town. With "_roads" it is
// of a road. It says what a person has asked for until the town is so; `follow()` has it look.
export function gate(id, isShut, post, of = "") {
  let asked = null;
  const shuts = () => !(asked ?? Boolean(isShut()));
  const shown = button("", async () => {
    const shut = shuts();
    await post("intervene", shut ? { [`close${of}`]: [id], hours: 0 } : { [`open${of}`]: [id] });
    toast(`${id} ${shut ? "closes" : "opens"} at the next step.`, false);
    asked = shut;
    shown.follow();
  }, "s-small s-gate");
  shown.follow = () => {
    if (asked === Boolean(isShut())) asked = null;
    shown.textContent = shuts() ? "Close it" : "Open it again";
  };
  shown.follow();
  return shown;
}

// Buttons for the next slower and the next faster of the paces of a select; `set()` sets the one that it shows.
export const paces = (speed, set) => [[-1, "−", "Slower"], [1, "+", "Faster"]].map(([by, text, label]) => titled(label, h("button", { type: "button", class: "s-button", "aria-label": label, onclick: attempt(() => {
  const at = speed.selectedIndex + by;
  if (at < 0 || at >= speed.options.length) return null;
  speed.selectedIndex = at;
  return set();
}) }, text)));
