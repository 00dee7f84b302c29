// What came of what a person has decided in the inbox: a line for each, with what the call gave and how its run ended.

import { button, clock, h, json, oneAtATime, replace, result, call, stateBadge } from "./dom.js";
import { on } from "./feed.js";
import { restState, runs } from "./journal.js";
import { go } from "./place.js";

const KEPT = 8; // decisions, the newest first
const BEFORE = 100; // entries before the last known one among which the decided call may have ended already
const same = (one, other) => json(one) === json(other);

// The list; `of(card)` says in short what a card is about.
export function makeDecided(of) {
  const list = h("ol", { class: "s-list", role: "log", "aria-label": "What came of it" });
  const root = h("section", { class: "s-decided", hidden: true }, h("h2", {}, "Decided"), list);
  const open = []; // those whose outcome may still come

  // What the call gave, once the run has noted it; then how the run went on.
  async function look(it) {
    const { card, args } = it;
    const fresh = await call(`runs/entries?run=${encodeURIComponent(card.run)}&after=${it.after}`);
    for (const { sequence, at, kind, path, data, fault } of fresh) {
      it.after = sequence;
      if (at < card.asked) continue;
      const came = data.result;
      if (!it.came && ["ended", "failed"].includes(kind) && data.about?.action === card.action && (!came?.args || same(came.args, args))) {
        it.came = true;
        const text = fault || came?.result?.error || came?.result?.result;
        replace(it.outcome, text === undefined || text === null ? "It is done." : result(text));
        it.outcome.classList.toggle("s-fault", Boolean(fault || came?.result?.error));
      }
      if (kind === "over" && !path) it.over = data;
    }
    if (!it.over) return;
    replace(it.end, stateBadge(restState(card.run, it.over.reason)), " ", it.over.text || "");
    if (it.over.reason !== "waiting") open.splice(open.indexOf(it), 1); // else its program goes on
  }
  const follow = oneAtATime(async () => { for (const each of [...open]) if (each.card.run) await look(each); }, 200, () => {}); // a deleted run has no more
  for (const topic of ["run", "job"]) on(topic, (batch) => batch.some((its) => open.some(({ card }) => card.run === (its.id ?? its.run))) && follow());
  on("message", (batch) => {
    for (const { from, to, action: { args }, answers } of batch) {
      const it = open.find(({ card }) => !card.run && from === card.agent && to === card.sender && answers?.action === card.action);
      if (!it) continue;
      replace(it.outcome, result(args.content ?? args.data ?? args.error ?? null));
      open.splice(open.indexOf(it), 1);
    }
  });

  return {
    root,
    clear: () => { replace(list); root.hidden = true; open.length = 0; },
    add(card, said, { args } = {}) {
      const it = { card, args: args ?? card.args, after: Math.max(0, (runs.get(card.run)?.entries ?? 0) - BEFORE), outcome: h("p", { class: "s-came" }), end: h("p", { class: "s-soft" }) };
      const brief = Object.entries(it.args || {}).map(([name, value]) => `${name} ${typeof value === "string" ? value : json(value)}`).join(", ");
      list.prepend(h("li", {}, h("time", {}, clock(Date.now() / 1000)), h("span", {}, `${of(card)} was ${said}. `), runs.has(card.run) && button("Its run", () => go(["runs", card.run]), "s-link"),
        brief && h("p", { class: "s-soft" }, brief.slice(0, 200)), it.outcome, it.end));
      while (list.childElementCount > KEPT) list.lastChild.remove();
      root.hidden = false;
      if (card.kind === "doubt" || (!card.run && card.kind !== "approval")) return;
      open.push(it);
      follow();
    },
  };
}
