// Fills the places that the page has for live parts, whenever Gradio puts them there.

import "./act.js"; // its cards may come before its tab is opened
import { connect } from "./feed.js";

const kept = new Map();

// Gradio may take a tab's content out of the page and put a new one in: what was shown goes along.
async function fill(place) {
  const name = place.id.slice("studio-".length);
  let root = kept.get(name);
  const isNew = root === undefined;
  if (isNew) {
    root = document.createElement("div");
    root.className = `s-root s-${name}`;
    kept.set(name, root);
  }
  if (root.parentElement !== place) place.append(root);
  if (isNew) (await import(`./${name}.js`)).mount(root);
}

function look() {
  for (const place of document.querySelectorAll(".studio-live"))
    if (!place.querySelector(":scope > .s-root")) fill(place);
  come();
}

// The tab stands in the address, so that a reload and the browser's Back come to it; arrow keys go
// from tab to tab. Those that a narrow window has no room for are in Gradio's list, without ids.
const tabs = () => [...document.querySelectorAll("#studio-tabs [role=tab]")];
const listed = "#studio-tabs .overflow-dropdown button";
const current = () => tabs().find((each) => each.getAttribute("aria-selected") === "true")?.dataset.tabId;
let wanted = location.hash.slice(1);

function come() {
  const now = current();
  const all = [...tabs(), ...document.querySelectorAll(listed)];
  const there = wanted !== now && all.find((each) => wanted && each.textContent.trim().toLowerCase().startsWith(wanted));
  if (now && there) {
    there.click();
    setTimeout(come, 100); // until it is the current one: a click on a list that is just drawn anew is lost
  }
  if (!now || there) return;
  wanted = "";
  if (!location.hash) history.replaceState(null, "", `#${tabs()[0].dataset.tabId}`);
  if (location.hash !== `#${now}`) history.pushState(null, "", `#${now}`);
}
addEventListener("popstate", () => {
  wanted = location.hash.slice(1) || tabs()[0]?.dataset.tabId;
  come();
});

document.addEventListener("click", (event) => {
  if (event.target.closest?.("#studio-tabs button.primary")) // a form's faults of the try before
    for (const each of document.querySelectorAll(".toast-body.error .toast-close")) each.click();
  if (event.target.closest?.(`#studio-tabs [role=tab], ${listed}`)) setTimeout(come);
});
document.addEventListener("keydown", (event) => {
  // Gradio's lists stay open over what is below them when Tab leads away.
  if (event.key === "Tab" && event.target.matches("[role=combobox][aria-controls$=-options]"))
    event.target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const at = tabs().indexOf(event.target);
  if (!by || at < 0) return;
  const next = tabs()[(at + by + tabs().length) % tabs().length];
  next.focus();
  next.click();
});

document.documentElement.lang = "en";
connect();
look();
new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
