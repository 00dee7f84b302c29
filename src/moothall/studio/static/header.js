// What stands above the tabs: the connection, the inbox, and light or dark.

import { h, replace } from "./dom.js";
import { on, state as connection } from "./feed.js";
import { mountInbox } from "./inbox.js";

export function mount(root) {
  const state = h("span", { class: "s-state", role: "status" });
  const { opens, panel } = mountInbox();
  replace(root,
    h("header", { class: "s-top" }, h("h1", {}, "moothall ", h("span", {}, "studio")), state, h("span", { class: "s-spacer" }), opens,
      h("button", { type: "button", class: "s-button quiet", onclick: dark, title: "Light or dark" }, "Light / dark")),
    panel);
  const tell = (now) => {
    state.className = `s-state ${now}`;
    state.textContent = { open: "connected", connecting: "connecting …", lost: "not connected: trying again" }[now];
  };
  on("state", tell);
  tell(connection);
}

function dark() {
  const is = document.documentElement.classList.toggle("dark");
  localStorage.setItem("moothall-studio", is ? "dark" : "light");
}
