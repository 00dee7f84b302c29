// The address of what is shown: /TAB, /runs/ID, /runs/ID/N. Whoever shows something is told when it
// changes, by a click or by the browser's Back.

export const BASE = document.documentElement.dataset.base;
export const TOLD = JSON.parse(document.documentElement.dataset.told); // what does not change while the studio is served
const listeners = [];

export const place = () => location.pathname.slice(BASE.length).split("/").filter(Boolean).map((each) => {
  try { return decodeURIComponent(each); } catch { return each; }
});
export const path = (...parts) => BASE + parts.map((each) => encodeURIComponent(each)).join("/");

const tell = () => listeners.forEach((each) => each(place()));
export const onPlace = (work) => listeners.push(work);

// Go there; with `instead`, Back does not come here again.
export function go(parts, { instead = false } = {}) {
  const to = path(...parts);
  if (to === location.pathname && !location.hash) return tell();
  history[instead ? "replaceState" : "pushState"]({ from: history.state?.at ?? null, at: location.pathname }, "", to);
  tell();
}

addEventListener("popstate", tell);
