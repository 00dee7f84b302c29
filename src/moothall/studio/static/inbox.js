// What waits for a person: approvals, questions, decisions and doubts. A card stands where its run is shown,
// else in the drawer that the header's button opens; what happens comes before how to decide.

import { AtField, attempt, button, call, clock, empty, h, parsed, plain, replace, toast } from "./dom.js";
import { DOUBT, choices, decidedHere } from "./doubts.js";
import { makeDecided } from "./decided.js";
import { drafted, forget } from "./drafts.js";
import { on, onReset } from "./feed.js";
import { runs } from "./journal.js";
import { go, onPlace, place as shownPlace } from "./place.js";
import { unitOf } from "./units.js";
import { argsOf } from "./values.js";

const KINDS = new Map();
const cards = new Map(); // the open ones, by number
const drawn = new Map(); // their elements, by number
const slots = []; // places of tabs: { root, accepts }
const mine = new Set(); // the numbers of those that are answered here
const KEPT = "moothall-unfolded"; // of the cards that a person has folded or unfolded whether they are open, over a reload
const unfolded = new Map(JSON.parse(sessionStorage.getItem(KEPT) || "[]"));
const KEYS = { a: { does: "click", words: "permit or accept" }, r: { does: "focus", words: "refuse or answer" } }; // of what has it as `data-key`
const LINE = 45; // characters in a line of a field
const LINGERS = 1500; // milliseconds for which the drawer stays open when its last card has gone
const READ = 1000; // milliseconds for which a card has been in sight before a button for several counts it
const WIDE = matchMedia("(min-width: 1100px)"); // there the inbox stands beside the tab Space, and covers nothing
const PHONE = matchMedia("(max-width: 760px)"); // there it would cover the tab that a person has opened: a bar says what waits
const isHome = () => shownPlace()[0] === "space";
const drawer = h("div", { class: "s-drawer-list" });
const decided = makeDecided((card) => inShort(card));
const answers = new Map(); // by number what was answered here

export const openCards = () => [...cards.values()];

// A tab that brings cards of its own says how one is shown: show(card, decide) gives elements, a
// summary first, which alone is left where a person folds the card.
export function cardKind(kind, show) {
  KINDS.set(kind, show);
}

// A place for the cards that belong to what a tab shows; `arrange()` is called when that changes.
export function cardSlot(root, accepts) {
  root.classList.add("s-slot");
  slots.push({ root, accepts });
  setTimeout(arrange); // once it is in the page
  return root;
}

export const endSlot = (root) => slots.splice(slots.findIndex((each) => each.root === root), 1);

const turn = (shown) => +shown.dataset.card + (shown.matches(".doubt") ? 1e9 : 0); // nobody waits for what is in doubt

let told = () => {}; // how many wait, and where

export function arrange() {
  place();
  told();
}

function place() {
  for (const [number, shown] of drawn) {
    const card = cards.get(number);
    if (card?.asked === +shown.dataset.asked) continue;
    if (shown.dataset.answered && (shown.contains(document.activeElement) || document.activeElement === document.body)) leave(shown);
    shown.remove();
    drawn.delete(number);
  }
  for (const card of cards.values()) {
    if (!drawn.has(card.number)) drawn.set(card.number, draw(card));
    const shown = drawn.get(card.number);
    const slot = slots.find(({ root, accepts }) => root.parentElement?.offsetParent && accepts(card));
    const root = slot ? slot.root : drawer;
    if (shown.parentElement !== root) root.insertBefore(shown, [...root.children].find((each) => turn(each) > turn(shown)) || null);
  }
  for (const { root } of slots) { // of several the first is open, unless a person has folded it
    root.hidden = !root.childElementCount;
    [...root.children].forEach((each, at) => {
      if (!each.dataset.touched) each.firstChild.open = unfolded.get(each.dataset.asked) ?? !at;
    });
  }
  for (const each of drawer.children) if (!each.dataset.touched) each.firstChild.open = unfolded.get(each.dataset.asked) ?? true;
}

// Who has answered a card goes on at the next one, in a conversation at its line, else at the inbox.
function leave(shown) {
  const talk = !matchMedia("(pointer: coarse)").matches && shown.closest(".s-talk"), all = talk ? [...talk.querySelectorAll(".s-card[data-card], .s-line")] : focusable(), next = all[all.indexOf(shown) + 1] || all.find((each) => each !== shown);
  (next || document.querySelector(".s-inbox"))?.focus({ preventScroll: true });
}

const typing = () => /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName || "");
const focusable = () => [...document.querySelectorAll(".s-card[data-card]")].filter((each) => each.offsetParent);

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || typing()) return;
  const all = focusable();
  const card = document.activeElement?.closest?.(".s-card[data-card]");
  if ((event.key === "j" || event.key === "k") && all.length) {
    all.at((all.indexOf(card) + (event.key === "j" ? 1 : card ? -1 : 0)) % all.length).focus();
  } else if (card && KEYS[event.key] && !event.repeat) { // held, it would answer the next card, too
    card.firstChild.open = true;
    card.querySelector(`[data-key="${event.key}"]`)?.[KEYS[event.key].does]();
  } else return;
  event.preventDefault();
}

// The button of the header, and the drawer that it opens.
export function mountInbox() {
  const badge = h("span", { class: "s-count" });
  const nothing = empty("Nothing waits for you. Approvals, questions and decisions of agents come here.");
  const others = h("ul", { class: "s-list s-elsewhere" }); // those that stand elsewhere on the page
  const keysOf = h("p", { class: "s-soft s-keys" }, ["j, k: next, previous", ...Object.entries(KEYS).map(([key, { words }]) => `${key}: ${words}`)].join("; "));
  const several = button("", () => Promise.all(together().map(({ number, fingerprint }) => answer(number, { permit: true, fingerprint }))), "quiet s-several");
  const panel = h("aside", { class: "s-drawer", id: "studio-inbox", "aria-label": "Inbox", hidden: true },
    h("header", { class: "s-row" }, h("h2", {}, "Inbox"), button("Close", () => chooses(false), "quiet")),
    keysOf, nothing, several, drawer, others, decided.root);
  const opens = h("button", { type: "button", class: "s-button quiet s-inbox", "aria-expanded": "false", "aria-controls": "studio-inbox", onclick: () => chooses(panel.hidden) }, "Inbox", badge);

  const bar = h("button", { type: "button", class: "s-button s-waiting", hidden: true, "aria-controls": "studio-inbox", onclick: () => chooses(true) });

  // Whether a person has opened or closed it; else it is open in the tab Space while something waits or was decided there,
  // in a narrow window only for what waits when the page is opened: a card that comes later would lie over the work; on a phone never.
  let chosen = sessionStorage.getItem("moothall-inbox") || "";
  let [loaded, greets] = [false, false];
  const opensItself = () => isHome() && (WIDE.matches || (greets && !PHONE.matches)) && (drawer.childElementCount || !decided.root.hidden);
  const together = () => [...drawer.children].map((each) => cards.get(+each.dataset.card)).filter((card) => card?.kind === "approval" && !isDangerous(card) && Date.now() - drawn.get(card.number).since > READ && !drawn.get(card.number).dataset.answered);

  function chooses(is) {
    choose(is ? "open" : "closed");
    greets &&= is;
    show(is, true);
  }

  function choose(what) {
    chosen = what;
    sessionStorage.setItem("moothall-inbox", what);
  }

  function settle() {
    bar.hidden = !drawer.childElementCount || !panel.hidden;
    bar.textContent = `${drawer.childElementCount} ${drawer.childElementCount === 1 ? "waits" : "wait"} for you`;
    if (!chosen && panel.hidden === Boolean(opensItself())) show(panel.hidden);
    const many = together().length;
    several.hidden = many < 2;
    several.textContent = `Permit these ${many} without a warning`;
  }

  function show(is, isChosen = false) {
    const within = panel.contains(document.activeElement) || document.activeElement === document.body;
    panel.hidden = !is;
    bar.hidden = is || !drawer.childElementCount;
    opens.setAttribute("aria-expanded", String(is));
    if (!is) decided.clear();
    if (is && isChosen) panel.querySelector("summary, button")?.focus();
    else if (within && isChosen) opens.focus();
  }

  told = () => {
    const had = !nothing.hidden ? 0 : 1; // once its last card is answered, or shown with its run, it closes
    const away = [...drawn.values()].filter((each) => each.parentElement !== drawer);
    replace(others, away.map((each) => h("li", {}, h("button", { type: "button", class: "s-link", onclick: () => { chooses(false); lead(each); } }, titleOf(each)))));
    nothing.hidden = drawer.childElementCount > 0;
    keysOf.hidden = !nothing.hidden;
    if (had && !nothing.hidden && !isHome()) setTimeout(() => { if (!nothing.hidden && !panel.hidden && !isHome()) { choose(""); show(false); } }, LINGERS);
    nothing.textContent = cards.size ? "It stands where its run or its space is shown, on this tab:" : "Nothing waits for you. Approvals, questions and decisions of agents come here.";
    badge.textContent = cards.size || "";
    opens.classList.toggle("some", cards.size > 0);
    opens.setAttribute("aria-label", cards.size ? `Inbox: ${cards.size} wait for you` : loaded ? "Inbox: nothing waits for you" : "Inbox");
    document.title = cards.size ? `(${cards.size}) waits for you · moothall studio` : "moothall studio";
    settle();
    setTimeout(settle, READ + 50); // those that have come by now were in sight
  };
  on("run", () => {
    for (const [number, shown] of drawn) if (shown.querySelector(".s-of-run") && !shown.querySelector(".s-of-run button") && runs.has(cards.get(number)?.run)) shown.querySelector(".s-of-run").replaceWith(ofRun(cards.get(number)));
  });
  on("card", (batch) => {
    for (const card of batch) cards.set(card.number, card);
    arrange();
  });
  on("card_gone", (batch) => {
    for (const { number, said } of batch)
      if (cards.has(number)) tell(cards.get(number), said);
    for (const { number } of batch) cards.delete(number);
    if (chosen === "closed" && !cards.size) choose(""); // what comes next is in sight again
    arrange();
  });
  onReset(async () => {
    const found = await call("cards");
    cards.clear();
    for (const card of found) cards.set(card.number, card);
    [loaded, greets] = [true, loaded ? greets : cards.size > 0];
    arrange();
  });
  onPlace(() => setTimeout(arrange)); // once the tab is shown
  WIDE.addEventListener("change", arrange);
  document.addEventListener("keydown", keys);
  document.addEventListener("keydown", (event) => event.key === "Escape" && !panel.hidden && chooses(false));
  told();
  if (chosen === "open") panel.hidden = false;
  opens.setAttribute("aria-expanded", String(!panel.hidden));
  return { opens, panel, bar };
}

// What a card is about, for who does not see it.
const inShort = ({ kind, agent, action }) => (kind === "approval" ? `${agent}.${action}` : `A ${kind}${agent ? ` of ${agent}` : ""}`);
const titleOf = ({ firstChild: { firstChild: summary } }) => [...summary.childNodes].filter((each) => each.tagName !== "TIME").map((each) => each.textContent).join("") + (summary.dataset.beginning || "");

// Say what has become of a card, where nothing else on the page does.
function tell(card, said) {
  const { kind, number, run } = card, is = inShort(card);
  if (!mine.delete(number) && !(kind === "doubt" && decidedHere.delete(run))) toast(`${is} ${said === "withdrawn" ? "is gone: what asked has ended" : `was ${said} on another page`}.`, false);
  else if (isHome() && drawn.get(number)?.offsetParent && drawn.get(number).closest(".s-drawer")) decided.add(card, said, answers.get(number));
  else if (drawn.get(number)?.closest(".s-drawer, .s-chat")) toast([`${is} was ${said}. `, runs.has(run) && button("Its run", () => go(["runs", run]), "s-link")], false);
}

// Go to a card, wherever it stands.
function lead(shown) {
  shown.firstChild.open = true;
  shown.scrollIntoView({ block: "nearest" });
  shown.focus({ preventScroll: true });
}

// Where an agent's card is open, a button that leads to it: the agent waits for the person, not the other way round.
export function waitsForYou(...agents) {
  const asks = (card) => agents.includes(card.agent);
  return openCards().some(asks) ? h("button", { type: "button", class: "s-link s-waits", onclick: () => leadTo(asks) }, "waits for you") : null;
}

// Go to the card of a run of an agent; whether there is one.
export function leadTo(wanted) {
  const card = [...cards.values()].find(wanted), shown = card && drawn.get(card.number);
  if (shown && !shown.offsetParent) document.querySelector(".s-inbox[aria-expanded='false']")?.click();
  if (shown) lead(shown);
}

// The run that a card belongs to, once the list of runs has it: two may want the same.
function ofRun({ run, task, folder }) {
  const known = runs.get(run), said = (typeof task === "string" && task) || (known && (known.task.split("\n")[0] || "(no task)"));
  return h("p", { class: "s-soft s-for s-of-run", hidden: !said }, said && ["for ", known ? h("button", { type: "button", class: "s-link", title: known.id, onclick: () => go(["runs", run]) }, said) : `“${said}”`, folder && ` in ${folder}`]);
}

// What is written on a card outlives it: the card of a run that is resumed has another number.
export const draftOf = (card, part = "") => `card/${JSON.stringify([card.kind, card.run ?? card.asked, card.fingerprint ?? card.round ?? card.tasks ?? card.text])}/${part}`;

// Answer an open card.
function answer(number, its) {
  const card = cards.get(number);
  mine.add(number);
  answers.set(number, its);
  drawn.get(number).dataset.answered = "yes";
  return call(`cards/${number}`, its).then(() => forget(draftOf(card))).catch((error) => {
    mine.delete(number);
    delete drawn.get(number)?.dataset.answered;
    throw error;
  });
}

function draw(card) {
  const decide = (its) => answer(card.number, its);
  const details = h("details", { open: true }, KINDS.get(card.kind)(card, decide));
  for (const field of details.querySelectorAll("[data-draft]")) drafted(field, draftOf(card, field.dataset.draft));
  details.firstChild.after(ofRun(card));
  const shown = h("article", { class: `s-card ${card.kind}`, tabindex: -1, "data-card": card.number, "data-asked": card.asked, "aria-label": `${card.kind} ${card.number}` }, details);
  details.firstChild.addEventListener("click", () => {
    shown.dataset.touched = "yes";
    unfolded.set(String(card.asked), !details.open); // it is about to change
    sessionStorage.setItem(KEPT, JSON.stringify([...unfolded].slice(-100)));
  });
  shown.since = Date.now();
  return shown;
}

const OF_ACT = { files: "The agent" }; // of Act and review: its id says nothing to a person

// What a folded card is about.
const beginning = (text) => ({ class: "s-card-title", "data-beginning": text ? plain(`: ${text.slice(0, 60)}${text.length > 60 ? " …" : ""}`) : null });

// Whether the action says that it is dangerous, or a warning stands beside the call.
const isDangerous = ({ facts, note }) => Boolean(note) || ![undefined, false, "", "no", "none", "low"].includes(facts?.danger);

cardKind("approval", (card, decide) => {
  const why = h("input", { class: "s-input", "data-key": "r", "data-draft": "why", "aria-label": "Reason for refusing", placeholder: "Why not? (optional)", onkeydown: (event) => event.key === "Enter" && refuse.click() });
  const about = (more) => decide({ fingerprint: card.fingerprint, ...more });
  const fields = new Map(); // the arguments that are being edited, by name; empty while they are only shown
  const args = h("dl", { class: "s-args" });
  const show = () => {
    fields.clear();
    replace(args, argsOf(card.args, undefined, card.formats));
  };
  // A text is edited as it is, anything else as JSON.
  const editing = () => {
    replace(args, Object.entries(card.args).map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
      const fault = h("p", { class: "s-fault", role: "alert", id: `fault-${card.number}-${name}`, hidden: true });
      fields.set(name, drafted(h("textarea", { "aria-describedby": fault.id, oninput: ({ target }) => { fault.hidden = true; target.removeAttribute("aria-invalid"); }, class: "s-input", "aria-label": `Argument ${name}`, rows: Math.min(12, text.split("\n").reduce((sum, each) => sum + Math.max(1, Math.ceil(each.length / LINE)), 0)), value: text }), draftOf(card, `args/${name}`)));
      return [h("dt", {}, name, unitOf(card.formats?.[name]) && h("span", { class: "s-soft" }, ` (${unitOf(card.formats[name])})`)), h("dd", {}, fields.get(name), fault)];
    }));
    args.querySelector("textarea").focus();
  };
  // What is wrong with the edits stands at its field, or below them all.
  const overall = h("p", { class: "s-fault", role: "alert", hidden: true });
  function wrongAt(field, text) {
    const fault = field?.nextElementSibling || overall;
    fault.textContent = text;
    fault.hidden = false;
    field?.setAttribute("aria-invalid", "true");
    field?.focus();
    throw new AtField();
  }
  const edited = () => Object.fromEntries([...fields].map(([name, field]) => {
    if (typeof card.args[name] === "string") return [name, field.value];
    try {
      return [name, parsed(field.value)];
    } catch (error) {
      const [is, such] = [typeof card.args[name], `such as ${JSON.stringify(card.args[name]).slice(0, 60)}`];
      wrongAt(field, is === "number" || is === "boolean" ? `${name} must be ${is === "number" ? "a number" : "true or false"}, ${such}, not “${field.value.slice(0, 60)}”` : `${name} must be JSON, ${such}: ${error.message}`);
    }
  }));
  const edits = card.editable && Object.keys(card.args).length > 0 && button("Edit arguments", () => {
    if (fields.size) { show(); forget(draftOf(card, "args/")); } else editing();
    edits.textContent = fields.size ? "Undo the edits" : "Edit arguments";
    first.textContent = fields.size ? "Permit as edited" : "Permit";
    for (const each of more) each.hidden = fields.size > 0;
  }, "quiet");
  const refuse = button("Refuse", () => decide({ permit: false, reason: why.value }));
  const name = card.sender === card.agent || !card.sender ? card.action : `${card.agent}.${card.action}`;
  const permit = () => {
    overall.hidden = true;
    if (!fields.size) return about({ permit: true });
    return about({ permit: true, args: edited() }).catch((error) => { if (!("field" in error)) throw error; wrongAt(fields.get(error.field), error.message); });
  };
  const first = button("Permit", permit, isDangerous(card) ? "danger" : "");
  first.dataset.key = "a";
  const more = Object.entries(card.choices || {}).map(([choice, label]) => button(label, () => about({ choice }), "quiet"));
  show();
  return [
    h("summary", beginning(Object.entries(card.args).map(([key, value]) => `${key} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ")),
      h("time", {}, clock(card.asked)), h("b", {}, OF_ACT[card.sender] || card.sender || card.run || "A run"), " wants ", h("b", {}, name)),
    args,
    Object.keys(card.args).length ? null : empty("without arguments"),
    Object.keys(card.facts || {}).length ? h("div", { class: "s-row" }, Object.entries(card.facts).map(([name, fact]) => h("span", { class: `s-badge ${name === "danger" && isDangerous(card) ? "bad" : ""}` }, `${name}: ${fact}`))) : null,
    card.note ? h("p", { class: "s-fault" }, card.note) : null,
    card.outside?.length ? h("div", { class: "s-outside" }, h("span", { class: "s-badge warn" }, "from outside"), h("ul", {}, card.outside.map((each) => h("li", {}, each)))) : null,
    overall, h("div", { class: "s-answer" }, h("div", { class: "s-row s-first" }, first, h("div", { class: "s-row s-refusal" }, why, refuse)), h("div", { class: "s-row" }, edits, more)),
  ].filter(Boolean);
});

cardKind("question", (card, decide) => {
  const text = h("input", { class: "s-input", "data-key": "r", "data-draft": "answer", "aria-label": `Answer to ${card.agent}`, placeholder: "Your answer", required: true });
  return [
    h("summary", beginning(card.text), h("time", {}, clock(card.asked)), h("b", {}, card.agent), " asks"),
    h("p", { class: "s-text" }, card.text),
    h("form", { class: "s-row", onsubmit: attempt(() => decide({ text: text.value })) },
      text, h("button", { class: "s-button primary" }, "Answer")),
  ];
});

cardKind("doubt", (card, decide) => [
  h("summary", beginning(card.text), h("time", {}, clock(card.asked)), h("b", {}, card.agent), " is in doubt"),
  h("p", {}, h("code", {}, card.text)),
  h("p", { class: "s-soft" }, DOUBT),
  choices(card.text, (decision, result) => decide({ decision, result })),
]);
