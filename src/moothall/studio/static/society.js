// The tab Society: a town that plays, its map and curves, a citizen's card, and what a person asks
// of it and changes in it.

import { besideTown, frameOf, more } from "./besidetown.js";
import { CHANGES, changeOf } from "./changes.js";
import { makeCurves } from "./curves.js";
import { attempt, button, call, count, empty, fillWindow, h, json, meter, oneAtATime, replace, sent, toast, update } from "./dom.js";
import { experiments } from "./experiments.js";
import { on, onReset } from "./feed.js";
import { fold } from "./forms.js";
import { GROUPS, NAMES, SHAPES, makeMap } from "./map.js";
import { go } from "./place.js";
import { townLog } from "./townlog.js";
import { gate, paces, whatIf, wish } from "./whatif.js";

const SCALES = { money: 100, savings: 100, income: 100, needs: 10, opinions: 10 }; // of the layers that are no plain numbers
const USUAL = "How are you?"; // what one asks first
const LISTED = 200; // citizens and places of a name, at most
const KEPT = "moothall-citizen"; // the run and the citizen that is looked at, over a reload
const money = (cents) => `${(cents / 100).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} dollars`;
const when = (iso) => new Date(iso).toLocaleString("en", { weekday: "long", day: "numeric", month: "long", hour: "2-digit", minute: "2-digit", hour12: false });
const short = (at) => new Date(at).toLocaleString("en", { weekday: "short", hour: "2-digit", minute: "2-digit", hour12: false });
const post = (path, body) => call(`society/${path}`, body);

export function mount(root) {
  let head = { town: 0, state: "none" };
  let rows = [];
  let citizen = ""; // the id of the one whose card is shown
  const began = (step) => short(new Date(head.start).getTime() + step * head.step_s * 1000); // when a step begins

  // -- above the map -------------------------------------------------------------------------------

  const play = button("Play", () => post("control", { do: head.state === "playing" ? "pause" : "play" }), "primary");
  const step = button("Step", () => post("control", { do: "step" }));
  const sure = h("span", { class: "s-row s-sure", role: "alert" });
  // The checkpoints are a time line; how much time a branch goes back is said before.
  const branch = button("Branch", async () => {
    const [kept, { changes }] = await Promise.all([call("society/checkpoints"), call("society/log")]);
    if (!kept.length) return fork(null, false);
    const to = (each) => each.step + 1; // it lives one step, then pauses
    const since = changes.some(([at]) => at >= to(kept.at(-1)));
    const stops = kept.map((each, n) => ({ ...each, said: since && n === kept.length - 1 ? ", without what was changed since" : "" }));
    if (since) stops.push({ ...kept.at(-1), said: ", with what was changed since" });
    stops.at(-1).entry = null; // the whole run
    const line = h("input", { type: "range", min: 0, max: stops.length - 1, value: stops.length - 1, "aria-label": "Checkpoint to go back to", oninput: tell });
    const words = h("b", {});
    function tell() {
      const { said } = stops[line.value], at = to(stops[line.value]), back = head.step - at;
      words.textContent = `${back > 0 ? `${count(back, "step")} back, to` : "On from now,"} ${began(at)}${said}.`;
      line.setAttribute("aria-valuetext", words.textContent);
    }
    tell();
    const there = (beside) => fork(stops[line.value].entry, beside);
    replace(sure, stops.length > 1 ? [h("small", {}, began(to(kept[0]))), line, h("small", {}, began(to(kept.at(-1))))] : null, words, button("Branch there", () => there(false), "primary"), button("Branch beside", () => there(true)), button("Cancel", () => replace(sure), "quiet"), h("span", { class: "s-soft" }, "There: this town ends, and is kept under “Resume a recorded town”. Beside: both live on."));
    sure.querySelector("input, button").focus();
  });
  async function fork(upto, beside) {
    replace(sure);
    const copy = await call(`runs/fork?run=${encodeURIComponent(head.run)}${upto ? `&upto=${upto}` : ""}`, undefined, "POST");
    if (beside) return post("put_beside", { run: copy.id });
    await call(`act/resume?ends=${head.town}`, { run: copy.id });
    toast("A fork of this town continues from its checkpoint. The original is kept under “Resume a recorded town”.", false);
  }
  branch.title = "Continue with a fork from a checkpoint, or put one beside this town";
  const compare = button("Compare", async () => {
    const towns = await call("society/recorded");
    const which = h("select", { class: "s-input", "aria-label": "Town to put beside it" }, towns.map(([value, label]) => h("option", { value }, label)));
    const put = button("Show beside", () => {
      replace(sure);
      return post("put_beside", { run: which.value });
    }, "primary");
    replace(sure, towns.length ? [which, put] : h("b", {}, "No other town is recorded: press Branch, then Branch beside."), button("Cancel", () => replace(sure), "quiet"));
    sure.querySelector("select, button").focus();
  });
  compare.title = "Put a recorded town beside this one";
  const speed = h("select", { class: "s-input", "aria-label": "Speed", onchange: attempt(() => setPace()) },
    [1, 2, 4, 10].map((each) => h("option", { value: each }, `${each} step${each > 1 ? "s" : ""} a second`)), h("option", { value: 0 }, "as fast as it can"));
  let paced = 0; // begun and ended changes of the pace: a frame that was asked for before the last one has an older pace
  const setPace = () => { paced += 1; return post("control", { speed: Number(speed.value) }).finally(() => (paced += 1)); };
  const [slower, faster] = paces(speed, setPace);
  const large = button("Large", () => enlarge(!town.classList.contains("large")), "quiet");
  large.title = "The map alone, over the whole window; Escape leaves it";
  const time = h("b", { class: "s-time" });
  const bar = h("progress", { "aria-label": "Progress", max: 1 });
  const told = h("span", { class: "s-soft", role: "status" });
  const cost = h("button", { type: "button", class: "s-link", onclick: () => go(["runs", head.run]) }, "Steps and cost");
  const idAt = (index) => (head.ids ? head.ids[index] : String(index + 1));
  const indexOf = (id) => (head.ids ? head.ids.indexOf(id) : Number(id) - 1);
  const isCitizen = (id) => (head.ids ? head.ids.includes(id) : /^\d+$/.test(id));
  const map = makeMap((index) => choose(idAt(index)), undefined, (id) => showPlaces([id]), showRoad);
  let [plays, trial] = [false, ""]; // whether the town that is being set up is to play at once, and what is tried in it
  const atOnce = button("Play a town of 300 citizens", async () => {
    plays = true;
    await call("society/forms/new", { citizens: 300, days: 7, step: "15min", seed: 0 });
    fold("society", "new", false);
  }, "primary s-atonce");
  const nothing = h("div", { class: "s-invite" }, atOnce, h("p", { class: "s-soft" }, "No town is set up. Choose above how many citizens live how long, and press Set up; this one lives for a week, by rules. Towns that are recorded are resumed there, too."));
  const layer = h("select", { class: "s-input s-layer", "aria-label": "Colour of the citizens", onchange: () => load() }, h("option", { value: "" }, "what they do"));
  const scale = h("span", { class: "s-row" });
  const groups = GROUPS.map((each) => h("span", {}, h("i", { style: `background: var(--s-act-${each})` }), NAMES[each]));
  const shapes = Object.entries(SHAPES).map(([kind, shape]) => h("span", {}, h("b", { class: kind }, shape), kind));
  const legend = h("div", { class: "s-legend" }, h("label", {}, "Colour: ", layer), scale, groups,
    shapes);
  const curves = makeCurves();
  const maps = h("div", { class: "s-maps", title: matchMedia("(pointer: coarse)").matches ? "+ and − zoom; a finger moves a zoomed map" : "Ctrl + wheel, + and − zoom; drag moves" }, map.root);
  const beside = besideTown(maps, when, (index) => choose(idAt(index)), () => curves.draw(head, rows, beside.rows()));

  // -- beside the map ------------------------------------------------------------------------------

  const number = h("input", { class: "s-input", type: "search", size: 16, maxlength: 200, placeholder: "name or place", "aria-label": "Citizen's number or name, or a place" });
  const find = h("form", { class: "s-row", onsubmit: attempt(async () => {
    const sought = number.value.trim();
    if (isCitizen(sought) || !sought) return choose(sought);
    const places = map.places(sought).slice(0, LISTED);
    const found = await call(`society/find?name=${encodeURIComponent(sought)}`).catch((error) => { if (!places.length) throw error; return []; });
    if (number.value.trim() !== sought) return; // another name is typed meanwhile: it stays
    if (found.length === 1 && !places.length) return choose(found[0][0]);
    choose("", number.value); // not set anew: who types on keeps the place
    replace(who, found.length > 0 && [h("p", {}, `${found.length < LISTED ? found.length : `The first ${LISTED}`} whose names begin so:`), h("ul", { class: "s-list" }, found.map(([id, name, home]) => h("li", {}, name, " ", other(id), h("span", { class: "s-soft" }, ` ${home}`))))],
      places.length > 0 && [h("p", {}, `${count(places.length, "place")}:`), listOf(places)]);
    if (places.length && !found.length) map.spot(places[0][0]);
  }) }, number, h("button", { class: "s-button" }, "Show"));
  const listOf = (places) => h("ul", { class: "s-list" }, places.map(([id, , , , , name, kind]) => h("li", {}, spotted(id), name === id ? null : ` ${name}`, kind === "home" ? null : [" ", gate(id, () => head.closed?.includes(id), post)])));
  function showPlaces(ids) { // of a click on the map
    choose("");
    replace(who, listOf(map.places("").filter(([id]) => ids.includes(id))));
    map.spot(ids[0]);
  }
  function showRoad(id, name) { // of a click on the map
    choose("");
    replace(who, h("ul", { class: "s-list" }, h("li", {}, name ? `${name} · ` : "", `road ${id} `, gate(id, () => head.closed_roads?.includes(id), post, "_roads"))));
  }
  const who = h("div", { class: "s-person" });
  const card = h("div", { class: "s-person" });
  const question = h("input", { class: "s-input", maxlength: 2000, placeholder: "Ask it a question", "aria-label": "Question to the citizen" });
  const named = (label) => h("input", { class: "s-input", size: 14, maxlength: 200, placeholder: "the town’s own model", "aria-label": label });
  const [model, modelOfAll] = [named("Model that answers for the citizen"), named("Model that answers for all")];
  const ask = h("form", { class: "s-row", hidden: true, onsubmit: attempt(async () => {
    if (question.value.trim()) await sent(question, inquire);
  }) }, question, model, h("button", { class: "s-button" }, "Interview"), button(USUAL, () => inquire(USUAL)));
  const inquire = (asked) => post("interview", { citizen, question: asked.trim(), model: model.value });
  const answers = h("div", { class: "s-answers" });
  const labelled = (label, input) => h("label", {}, h("span", {}, label), input);
  const field = (attrs = {}) => h("input", { class: "s-input", ...attrs });
  const select = (label, options, onchange) => h("select", { class: "s-input", "aria-label": label, onchange }, options.map(([value, text]) => h("option", { value }, text)));

  const [text, name, amount, hours] = [field({ maxlength: 2000 }), field({ maxlength: 200 }), field({ type: "number", min: 0.01, step: 0.01, required: true }), field({ type: "number", min: 0, step: "any" })];
  const parts = { name: labelled("", name), text: labelled("", text), amount: labelled("", amount), hours: labelled("", hours) };
  const places = h("datalist", { id: "s-places" });
  const change = select("Change", Object.entries(CHANGES).map(([kind, { label }]) => [kind, label]), fields);
  function fields() {
    [text.value, name.value, amount.value, hours.value] = ["", "", "10", ""]; // what is wrong in a hidden field would hold up the form
    const of = CHANGES[change.value].fields, ofPlace = of.name === "Place";
    name.setAttribute("list", ofPlace ? "s-places" : "");
    name.placeholder = ofPlace ? "choose, or write its id" : "";
    for (const [key, part] of Object.entries(parts)) {
      part.firstChild.textContent = of[key] || "";
      part.hidden = !of[key];
    }
  }
  const changes = h("ul", { class: "s-list" });
  const intervene = h("form", { class: "s-fields", onsubmit: attempt(async () => {
    const at = await sent(text, async (text) => post("intervene", changeOf(change.value, { text, name: name.value, amount: Number(amount.value), hours: Number(hours.value) })));
    toast(`Will apply at ${began(at)} (step ${at}).`, false);
  }) }, change, Object.values(parts), places, h("button", { class: "s-button" }, "Apply at the next step"));

  const asked = field({ required: true, maxlength: 2000, placeholder: "Are you content?" });
  const choices = field({ placeholder: "good, bad" });
  const choosing = labelled("Choices, with commas between them", choices);
  const kind = select("Type of answer", [], () => (choosing.hidden = !isChosen()));
  const isChosen = () => kind.selectedOptions[0]?.dataset.choices === "true"; // among choices that a person writes
  const by = select("Answered from", [["", ""]]);
  const many = field({ type: "number", min: 1, value: "100" });
  const results = h("div", { class: "s-answers" });
  const survey = h("form", { class: "s-fields", onsubmit: attempt(async () => {
    await post("survey", { text: asked.value, kind: kind.value, choices: isChosen() ? choices.value.split(",") : [], by: by.value, model: modelOfAll.value, citizens: Number(many.value) });
    asking.open = false; // so that what was answered is in sight
    await showLog();
    const made = results.firstElementChild;
    made.tabIndex = -1;
    made.focus({ preventScroll: true });
    made.scrollIntoView({ block: "nearest" });
  }) }, labelled("Question", asked), labelled("Type of answer", kind), choosing, labelled("Model", modelOfAll), h("div", {}, labelled("Without a model, answered from", by), h("p", { class: "s-soft" }, "A rule does not read the question: the state you choose stands for the answer, its upper half for yes.")), labelled("How many citizens", many), h("button", { class: "s-button" }, "Ask"));
  choosing.hidden = true;
  const asking = h("details", {}, h("summary", {}, "Ask citizens a question"), survey);

  const panes = {
    Citizen: h("div", {}, find, who, ask, answers, card),
    Interventions: h("div", {}, intervene, changes),
    Survey: h("div", {}, asking, results),
    Log: h("div", {}),
  };
  const happened = townLog(panes.Log, (step) => began(step), (id, name) => other(id, name));
  const tabs = h("div", { class: "s-row s-panes", role: "group", "aria-label": "What is shown beside the map" },
    Object.keys(panes).map((each) => h("button", { type: "button", class: "s-button", onclick: () => pane(each) }, each)));
  function pane(shown) {
    for (const each of tabs.children) each.setAttribute("aria-pressed", each.textContent === shown);
    for (const [each, its] of Object.entries(panes)) its.hidden = each !== shown;
    happened.look(head);
  }
  pane("Citizen");

  const tried = whatIf(() => fork(null, true), post);
  function enlarge(is) {
    town.classList.toggle("large", is);
    large.setAttribute("aria-pressed", String(is));
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && enlarge(false));
  const town = h("div", { class: "s-town" },
    h("div", { class: "s-row s-control" }, play, step, h("span", { class: "s-row s-pace" }, slower, speed, faster), branch, compare, large, time, bar, told, cost, sure, beside.bar),
    h("div", { class: "s-middle" }, maps, legend, curves.root), h("aside", { class: "s-aside" }, tried.root, tabs, ...Object.values(panes)));
  replace(root, experiments(), nothing, town);
  fillWindow(root, 560);

  // What the colours of a layer stand for.
  function drawScale(level) {
    for (const each of groups) each.hidden = Boolean(level);
    const [of] = (level?.layer || "").split("."), unit = ["needs", "opinions"].includes(of) ? " %" : "";
    const say = (value) => `${(value / (SCALES[of] || 1)).toLocaleString("en", { maximumFractionDigits: 0 })}${unit}`;
    update(scale, level && [h("span", {}, level.least < 0 ? say(level.least) : `${say(level.least)} or less`), h("i", { class: level.least < 0 ? "s-ramp both" : "s-ramp" }), h("span", {}, `${say(level.most)}${level.least < 0 ? "" : " or more"}`)]);
  }

  // -- a citizen -----------------------------------------------------------------------------------

  function choose(id, words = id) {
    citizen = id;
    sessionStorage.setItem(KEPT, `${head.run} ${id}`);
    if (number.value !== words) number.value = words;
    map.pick(indexOf(id));
    beside.pick(indexOf(id));
    pane("Citizen");
    showCitizen();
    attempt(showLog)();
  }

  async function showCitizen() {
    ask.hidden = !citizen;
    if (!citizen) return replace(card), who.querySelector("ul") || replace(who, empty("Click a citizen on the map, or write its number or name."));
    const shown = citizen;
    const its = await call(`society/citizen?id=${encodeURIComponent(shown)}`).catch(({ message }) => ({ message }));
    if (shown !== citizen) return;
    ask.hidden = Boolean(its.message);
    update(who, its.message ? empty(its.message) : heading(its));
    update(card, its.message ? null : person(its));
  }

  const spotted = (id) => id && h("button", { type: "button", class: "s-link", title: "Show on the map", onclick: () => map.spot(id) }, id);
  const row = (label, value) => (value === null || value === undefined || value === "" ? null : [h("dt", {}, label), h("dd", {}, value)]);
  const hour = (seconds) => new Date((seconds % 86400) * 1000).toISOString().slice(11, 16);
  const other = (id, name) => (isCitizen(id) ? h("button", { type: "button", class: "s-link", onclick: () => choose(id) }, name ? `${name} ${id}` : id) : id);
  const lines = (title, all) => (all.length ? [h("h2", {}, title), h("ul", { class: "s-list" }, all.map((each) => h("li", {}, each)))] : null);

  function heading({ id, name, status }) {
    const { moving } = status;
    return [
      h("h3", { "aria-level": 2 }, name ? [name, " ", h("span", { class: "s-soft" }, `citizen ${id}`)] : `Citizen ${id}`, " ", h("span", { class: "s-badge busy" }, status.act || "idle")),
      h("p", {}, moving ? `On the way from ${moving.from || "nowhere"} to ${moving.to}, there ${began(moving.arrives)}` : `At ${status.place || "no place"}`, status.stuck ? h("span", { class: "s-soft" }, ` · ${status.stuck}`) : null),
    ];
  }

  function person(its) {
    const { status } = its;
    const profile = status.profile || {};
    return [
      h("dl", {}, row("Profile", [profile.age, profile.gender, profile.education === "none" ? "no degree" : profile.education].filter((each) => each !== undefined).join(", ")),
        row("Home", spotted(status.home)), row("Work", spotted(status.work)), row("School", spotted(status.school)),
        Object.entries(its.own).filter(([name]) => !["money", "savings", "income", "age"].includes(name)).map(([name, value]) => row(name, word(value))),
        row("Likes", Object.keys(profile.interests || {}).join(", ")),
        row("Money", `${money(status.money || 0)}${status.savings ? ` and ${money(status.savings)} saved` : ""}`)),
      status.needs ? h("h2", {}, "Needs, and how far they are met") : null,
      h("div", { class: "s-needs" }, Object.entries(status.needs || {}).map(([need, full]) => [h("span", {}, need),
        meter(need, full, 1000, full <= 200 ? "low" : ""), h("span", { class: "number" }, `${Math.round(full / 10)} %`)])),
      status.plan?.length ? [h("h2", {}, "Plan"), h("ol", { class: "s-list s-plan" }, status.plan.map((item, at) => h("li", { "aria-current": at === status.now ? "step" : null },
        h("time", {}, `${hour(item.from)}–${hour(item.until)}`), ` ${item.do}`, item.where ? h("span", { class: "s-soft" }, ` ${item.where}`) : null, at === status.now ? h("b", {}, " now") : null)))] : null,
      lines("Messages", its.messages.map(([, at, kind, sender, to, said]) => [h("span", { class: "s-soft" }, `step ${at} `), other(sender), " → ", other(to), kind === "message" ? ": " : ` ${kind}: `, said])),
      lines("Memory", its.stream.map((each) => (Array.isArray(each) ? [h("span", { class: "s-soft" }, `step ${each[0]} `), each[1]] : json(each.content)))),
      its.relations.length ? h("h2", {}, "Relations, and how close they are") : null,
      h("div", { class: "s-row" }, its.relations.map(([id, strength]) => h("span", {}, other(id), h("span", { class: "s-soft" }, ` ${Math.round(strength / 10)} %`)))),
    ];
  }

  // -- what was asked and changed ------------------------------------------------------------------

  const source = (from, why) => h("span", { class: "s-soft" }, { model: "by its model", rule: "by rule" }[from] || "no answer", why ? `: ${why}` : "");
  const word = (value) => (value === true ? "yes" : value === false ? "no" : value === null ? "none" : String(value));

  function outcome(its) {
    const most = Math.max(...its.counts.map((each) => each[1]));
    return h("section", { "aria-label": "Survey" }, h("h3", {}, its.question, its.sources.rule ? h("span", { class: "s-soft" }, ` rule: stands for ${its.by.replace(/^need (.*)/, "$1 need").replace(/^opinion /, "opinion of ")}`) : null), h("p", { class: "s-soft" }, `${count(its.asked, "citizen")} before step ${its.step}; ${Object.entries(its.sources).map(([from, n]) => `${n} by ${from}`).join(", ")}`),
      h("table", { class: "s-table" }, h("thead", {}, h("tr", {}, h("th", {}, "Answer"), h("th", { colspan: 2 }, "Citizens"))),
        h("tbody", {}, its.counts.map(([value, n]) => h("tr", {}, h("td", {}, word(value)), h("td", { class: "number" }, n), h("td", { class: "s-share" }, h("i", { style: `width: ${(100 * n) / most}%` })))))),
      h("details", {}, h("summary", {}, its.answers.length < its.asked ? `The first ${its.answers.length} answers` : "Each answer"), h("table", { class: "s-table" },
        h("tbody", {}, its.answers.map(([id, value, from, why]) => h("tr", {}, h("td", {}, other(id)), h("td", {}, word(value)), h("td", {}, source(from, why))))))));
  }

  let due = Infinity; // the step of the first change that is to come

  let [asks, lastAsked] = [0, null]; // of two that are under way, what the earlier brings is older
  const showLog = () => (lastAsked = readLog(asks += 1));
  async function readLog(mine) {
    due = Infinity;
    if (!["playing", "paused", "ended"].includes(head.state)) return [changes, results, answers].forEach((each) => replace(each));
    const log = await call("society/log");
    if (mine !== asks) return lastAsked;
    due = Math.min(...log.changes.map((each) => each[0]).filter((step) => step >= head.step));
    replace(changes, log.changes.length ? log.changes.map(([step, what, failed]) => h("li", {}, h("span", { class: "s-badge" }, `${step < head.step ? "applied" : "will apply at"} ${began(step)} (step ${step})`), ` ${what}`, failed.slice(0, 3).map((why) => h("p", { class: "s-fault" }, `failed: ${why}`))))
      : h("li", {}, empty("Nothing was changed yet. What you apply holds from the next step on, and is recorded in the run.")));
    update(answers, log.said.filter((each) => each.kind === "interview" && each.citizen === citizen).map((each) =>
      h("section", {}, h("b", {}, each.question), h("p", {}, each.answer || "…"), source(each.source, each.reason), h("span", { class: "s-soft" }, `, before step ${each.step}`))));
    update(results, log.said.filter((each) => each.kind === "survey").map(outcome));
    if (asking.dataset.town !== String(head.town)) asking.open = !results.childElementCount;
    asking.dataset.town = head.town;
  }

  // -- what is new ---------------------------------------------------------------------------------

  let [waits, seen, cardAt] = [false, -1, 0]; // whether the tab is to be opened first

  const load = oneAtATime(async () => {
    waits = !root.offsetParent;
    if (waits) return;
    const at = paced, [now, citizens] = await frameOf(head.town, rows, layer.value);
    if (at !== paced) now.speed = Number(speed.value);
    await show(now, citizens);
  }, 0);

  let [planOf, layerOf] = [0, 0];
  async function show(now, citizens) {
    const isNew = now.town !== head.town;
    head = now;
    if (isNew) {
      [rows, citizen, seen, number.value] = [[], "", -1, ""];
      map.show(null);
      replace(who);
      by.required = !now.model;
      by.options[0].textContent = now.model ? "nothing: only a model answers" : "choose what stands for the answer";
      curves.clear();
      layer.replaceChildren(layer.options[0]);
    }
    rows = more(rows, now);
    beside.look(now.beside, layer.value);
    nothing.hidden = now.state !== "none";
    town.hidden = now.state === "none";
    const lives = citizens.byteLength > 0;
    play.textContent = now.state === "playing" ? "Pause" : "Play";
    branch.disabled = compare.disabled = !lives;
    branch.hidden = compare.hidden = cost.hidden = Boolean(now.is_own); // only its program can make it again
    play.disabled = step.disabled = speed.disabled = slower.disabled = faster.disabled = !["playing", "paused"].includes(now.state);
    if (document.activeElement !== speed) speed.value = now.speed ?? 4;
    const wanted = (now.state === "none" ? !atOnce.disabled : ["paused", "playing"].includes(now.state)) && wish();
    if (wanted) {
      trial = wanted.trial;
      if (now.state === "none") return void atOnce.click();
      plays = now.state === "paused";
    }
    if (plays && now.state === "paused") {
      plays = false;
      post("control", { do: "play" }).catch((error) => toast(error.message));
    }
    time.textContent = lives ? when(now.time) : now.state === "failed" ? "It failed" : "Is being set up …";
    bar.hidden = !lives;
    [bar.max, bar.value] = [now.steps || 1, now.step || 0];
    told.textContent = now.fault || (lives ? `step ${now.step.toLocaleString("en")} of ${now.steps.toLocaleString("en")} · ${now.state}` : now.about || "");
    told.title = lives ? `${now.rate.toLocaleString("en")} steps of a citizen a second` : "";
    told.classList.toggle("s-fault", Boolean(now.fault));
    if (lives && planOf !== now.town) {
      change.selectedIndex = 0;
      fields(); // before it waits: what a person writes meanwhile stays
      const plan = await call("society/map");
      map.show(plan);
      tried.offer(plan, now.is_own);
      for (const [at, kind] of Object.keys(SHAPES).entries()) shapes[at].hidden = !plan.kinds.includes(kind);
      planOf = now.town;
      const [of, id] = (sessionStorage.getItem(KEPT) || "").split(" ");
      if (id && of === now.run) choose(id);
      const named = plan.places.map(([id, kind, , , , name]) => [id, plan.kinds[kind], name]).filter((each) => each[1] !== "home"); // too many, and written as home-1
      replace(places, named.sort((one, other) => (one[1] < other[1] ? -1 : 1)).map(([value, kind, name]) => h("option", { value, label: name === value ? kind : `${kind}: ${name} (${value})` })));
    }
    if (trial && lives) {
      tried.begin(trial);
      trial = "";
    }
    if (lives && by.options.length === 1) {
      const ways = [...now.needs.map((each) => [`need ${each}`, `${each} need, met by 0 to 100 %`]), ...now.topics.map((each) => [`opinion ${each}`, `opinion of ${each}, −100 to 100 %`])];
      by.append(...ways.map(([value, label]) => h("option", { value }, label)));
      kind.append(...now.kinds.map(([value, label, choices]) => h("option", { value, "data-choices": String(choices) }, label)));
    }
    if (lives) {
      if (layer.options.length !== now.layers.length + 1) layer.append(...now.layers.slice(layer.options.length - 1).map(([value, label]) => h("option", { value }, label)));
      if (now.is_own && layerOf !== now.town) { // what a model's citizens do has no name: its own value is their colour
        layerOf = now.town;
        layer.value = now.by ?? now.layers.find(([value]) => !/[.]|^(money|savings|income|x|y)$/.test(value))?.[0] ?? now.layers[0]?.[0] ?? "";
        return load();
      }
      map.frame(citizens, now.acts, now.closed, now.closed_roads, now.level);
      for (const each of who.querySelectorAll(".s-gate")) each.follow();
      drawScale(now.level);
      curves.draw(head, rows, beside.rows());
      happened.look(head);
    }
    if (now.changes !== seen || isNew || now.step > due) {
      seen = lives ? now.changes : -1; // what a recorded run has is there once it lives
      await showLog();
    }
    if (isNew || now.state !== "playing" || performance.now() - cardAt > 1000) {
      cardAt = performance.now();
      showCitizen();
    }
  }

  on("step", load);
  onReset(load);
  document.addEventListener("form-begun", ({ detail: { tab, values } }) => { if (tab === "society") plays = values.plays === true; });
  new IntersectionObserver(() => { if (waits || head.state === "none") load(); }).observe(root);
}
