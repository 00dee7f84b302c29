// What stands above the tabs: the connection, the runs that failed lately, the inbox, and light or dark.

import { button, h, replace, runState } from "./dom.js";
import { on, onReset, state as connection } from "./feed.js";
import { mountInbox } from "./inbox.js";
import { listed, runs, stands } from "./journal.js";
import { go } from "./place.js";

const LATELY_S = 86400;

export function mount(root) {
  const state = h("span", { class: "s-state", role: "status" });
  const { opens, panel, bar } = mountInbox();
  let last = null; // the run that failed last
  const failed = button("", () => go(["runs", last.id]), "quiet s-failed");
  replace(root,
    h("header", { class: "s-top" }, h("h1", {}, "moothall ", h("span", {}, "studio")), state, h("span", { class: "s-spacer" }), failed, opens,
      h("button", { type: "button", class: "s-button quiet s-dark", onclick: dark, title: "Light or dark" }, "Light / dark")),
    bar, panel);
  const tell = (now) => {
    state.className = `s-state ${now}`;
    state.textContent = { open: "connected", connecting: "connecting …", lost: "not connected: trying again" }[now];
  };
  on("state", tell);
  tell(connection);
  const count = () => {
    const since = Date.now() / 1000 - LATELY_S;
    const all = [...runs.values()].filter((each) => each.changed > since && runState(...stands(each)).word === "failed");
    last = all.reduce((one, other) => (one && one.changed > other.changed ? one : other), null);
    failed.hidden = !all.length;
    failed.textContent = `${all.length} failed`;
    failed.title = `Runs that failed within a day: ${all.length}. It opens the last one: ${last?.task || last?.id}`;
  };
  count();
  for (const topic of ["run", "run_gone", "job"]) on(topic, count);
  onReset(() => listed().then(count));
}

function dark() {
  const is = document.documentElement.classList.toggle("dark");
  localStorage.setItem("moothall-studio", is ? "dark" : "light");
}
