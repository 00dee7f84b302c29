// Links by which one run is read by who has them: made for some days, told once, withdrawn.

import { attempt, button, call, day, dialog, empty, h, replace, toast } from "./dom.js";
import { BASE } from "./place.js";

export async function showShares(root, id) {
  const list = h("ul", { class: "s-list", "aria-label": "Links that open this run" });
  const made = h("div", { role: "status" });
  const days = h("input", { class: "s-input s-few", type: "number", min: 0.01, max: 365, step: "any", value: 7, required: true, "aria-label": "Days" });
  const show = (all) => replace(list, all.length ? all.map(({ number, until }) => h("li", {}, `Link ${number}, until ${day(until)} `, button("Withdraw", async () => show(await call("runs/withdraw", { run: id, number })), "quiet")))
    : h("li", {}, empty("No link opens this run.")));
  const form = h("form", { class: "s-row", onsubmit: attempt(async () => {
    const { path } = await call("runs/share", { run: id, days: Number(days.value) });
    const link = `${location.origin}${BASE}${path}`;
    replace(made, h("p", {}, "Copy it now: only its hash is kept."), h("div", { class: "s-row" }, h("input", { class: "s-input", readonly: true, value: link, "aria-label": "Link", onfocus: ({ target }) => target.select() }),
      button("Copy", async () => { await navigator.clipboard.writeText(link); toast("The link is copied.", false); })));
    show(await call(`runs/shares?run=${encodeURIComponent(id)}`));
  }) }, h("label", {}, "For days ", days), h("button", { class: "s-button primary" }, "Make a link"));
  show(await call(`runs/shares?run=${encodeURIComponent(id)}`));
  dialog(root, "Share this run", "Share this run", h("p", {}, "Who has a link reads this run, its steps and what they gave, and nothing else. They need no password."), list, form, made);
}
