// Fills the places that the page has for live parts, whenever Gradio puts them there.

import "./act.js"; // its cards may come before its tab is opened
import { connect } from "./feed.js";

const MOUNTS = {
  header: () => import("./header.js"),
  space: () => import("./space.js"),
  act: () => import("./act.js"),
  research: () => import("./research.js"),
  society: () => import("./society.js"),
  runs: () => import("./runs.js"),
};

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
  if (isNew) (await MOUNTS[name]()).mount(root);
}

function look() {
  for (const place of document.querySelectorAll(".studio-live"))
    if (!place.querySelector(":scope > .s-root")) fill(place);
}

document.documentElement.lang = "en";
connect();
look();
new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
