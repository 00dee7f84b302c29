// The experiments that were begun in this studio: their progress, and the report of what has ended.

import { button, call, count, h, keyed, replace } from "./dom.js";
import { on, onReset } from "./feed.js";

const STATES = { running: "busy", stopping: "warn", ended: "good", stopped: "warn", failed: "bad" };

function makeOne(told) {
  const badge = h("span", { class: "s-badge" });
  const far = h("span", { class: "s-soft", role: "status" });
  const bar = h("progress", { max: 1, "aria-label": `Progress of ${told.name}` });
  const stop = button("Stop", () => call("society/stop_experiment", { number: told.number }), "quiet");
  const again = button("Continue", () => call("society/forms/experiment", { file: told.file, jobs: told.jobs, seeds: told.seeds, out: told.out }));
  again.title = "Run the cells that have not ended yet";
  const fault = h("p", { class: "s-fault" });
  const report = h("div", {});
  const root = h("details", { open: told.state !== "ended", "aria-label": `Experiment ${told.name}` },
    h("summary", {}, h("b", {}, told.name), " ", badge, " ", far), h("div", { class: "s-row s-control" }, bar, stop, again), fault,
    h("p", { class: "s-soft" }, `${told.file}; its results are in ${told.out}`), report);
  function update({ state, cells, cells_ended: ended, part, seconds_left: left, fault: why }) {
    badge.className = `s-badge ${STATES[state]}`;
    badge.textContent = state;
    far.textContent = `${ended.toLocaleString("en")} of ${count(cells, "cell")}${state === "running" && left !== null ? ` · ${Math.ceil(left).toLocaleString("en")} s left` : ""}`;
    bar.value = part;
    bar.hidden = stop.hidden = state !== "running";
    again.hidden = state !== "stopped" && state !== "failed";
    fault.hidden = !why;
    fault.textContent = why;
    if (state === "ended" && !report.firstChild) // no script runs in it
      replace(report, h("p", {}, h("a", { href: keyed(`society/experiment?number=${told.number}`), target: "_blank", rel: "noopener" }, "The report in a page of its own")), h("iframe", { title: `Report of ${told.name}`, sandbox: "", src: keyed(`society/experiment?number=${told.number}`) }));
  }
  return { root, update, out: told.out };
}

export function experiments() {
  const root = h("div", { class: "s-experiments" });
  const all = new Map();
  function show(told) {
    if (!all.has(told.number)) {
      for (const [number, { root: before, out }] of all) if (out === told.out && number < told.number) { // it continues that one
        before.remove();
        all.delete(number);
      }
      all.set(told.number, makeOne(told));
      root.prepend(all.get(told.number).root);
    }
    all.get(told.number).update(told);
  }
  on("experiment", (batch) => batch.forEach(show));
  onReset(async () => {
    for (const told of (await call("society/experiments")).reverse()) show(told);
  });
  return root;
}
