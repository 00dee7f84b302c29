// What stands above the tabs: the connection, and what waits for a person.

import { attempt, button, call, clock, empty, h, json, replace, toast } from "./dom.js";
import { on, onReset, state as connection } from "./feed.js";

const KINDS = new Map();
const mine = new Set(); // the numbers of cards that are answered here

// A tab that brings cards of its own says how one is shown: show(card, decide) gives elements, a
// summary first, which alone is left where a person folds the card.
export function cardKind(kind, show) {
  KINDS.set(kind, show);
}

export function mount(root) {
  const state = h("span", { class: "s-state", role: "status" });
  const waiting = h("span", { class: "s-badge warn" }); // some may be out of view
  const tray = h("section", { class: "s-tray", "aria-label": "Waiting for you", "aria-live": "polite" });
  replace(root,
    h("header", { class: "s-top" },
      h("h1", {}, "moothall ", h("span", {}, "studio")), state, waiting,
      h("button", { type: "button", class: "s-button quiet", onclick: dark, title: "Light or dark" }, "Light / dark")),
    tray);
  const tell = (now) => {
    state.className = `s-state ${now}`;
    state.textContent = { open: "connected", connecting: "connecting …", lost: "not connected: trying again" }[now];
  };
  on("state", tell);
  tell(connection);

  const cards = new Map();
  const draw = () => {
    tray.hidden = cards.size === 0;
    waiting.hidden = cards.size < 2;
    waiting.textContent = `${cards.size} cards wait for you`;
    document.title = cards.size ? `(${cards.size}) moothall studio` : "moothall studio";
    for (const shown of [...tray.children]) if (cards.get(+shown.dataset.card)?.asked !== +shown.dataset.asked) shown.remove();
    for (const card of cards.values())
      if (!tray.querySelector(`[data-card="${card.number}"]`)) tray.append(drawn(card));
  };
  on("card", (batch) => {
    for (const card of batch) cards.set(card.number, card);
    draw();
  });
  on("card_gone", (batch) => {
    for (const { number, said } of batch)
      if (cards.delete(number) && !mine.delete(number)) toast(`A card ${said === "withdrawn" ? "is gone: what asked has ended" : `was ${said} on another page`}.`, false);
    draw();
  });
  onReset(async () => {
    const found = await call("cards");
    cards.clear();
    for (const card of found) cards.set(card.number, card);
    draw();
  });
}

function dark() {
  const is = document.body.classList.toggle("dark");
  localStorage.setItem("moothall-studio", is ? "dark" : "light");
}
const chosen = localStorage.getItem("moothall-studio");
if (chosen) document.body.classList.toggle("dark", chosen === "dark");

function drawn(card) {
  const decide = (answer) => {
    mine.add(card.number);
    return call(`cards/${card.number}`, answer).catch((error) => { mine.delete(card.number); throw error; });
  };
  return h("article", { class: `s-card ${card.kind}`, "data-card": card.number, "data-asked": card.asked, "aria-label": `${card.kind} ${card.number}` },
    h("details", { open: true }, KINDS.get(card.kind)(card, decide)));
}

cardKind("approval", (card, decide) => [
  h("summary", { class: "s-card-title" }, h("b", {}, card.sender || card.run || "A run"), " wants ",
    h("b", {}, card.sender === card.agent ? card.action : `${card.agent}.${card.action}`), h("time", {}, clock(card.asked))),
  card.task ? h("p", { class: "s-soft s-for" }, `for “${card.task}” in ${card.folder}`) : null,
  h("dl", { class: "s-args" }, Object.entries(card.args).map(([name, value]) => [h("dt", {}, name), h("dd", {}, h("pre", {}, json(value) || "(empty)"))])),
  Object.keys(card.args).length ? null : empty("without arguments"),
  card.note ? h("p", { class: "s-fault" }, card.note) : null,
  h("div", { class: "s-row" },
    button("Permit", () => decide({ permit: true, fingerprint: card.fingerprint }), "primary"),
    button("Refuse", () => decide({ permit: false }))),
].filter(Boolean));

cardKind("question", (card, decide) => {
  const text = h("input", { class: "s-input", "aria-label": `Answer to ${card.agent}`, required: true });
  return [
    h("summary", { class: "s-card-title" }, h("b", {}, card.agent), " asks", h("time", {}, clock(card.asked))),
    h("p", {}, card.text),
    h("form", { class: "s-row", onsubmit: attempt(() => decide({ text: text.value })) },
      text, h("button", { class: "s-button primary" }, "Answer")),
  ];
});
