// The style guide: every field, button, table, tree, badge and colour there is, in light and dark.

import { chart } from "./chart.js";
import { button, empty, h, meter, replace, stateBadge, toast } from "./dom.js";

const COLOURS = ["ink", "soft", "paper", "raised", "line", "accent", "on-accent", "tint", "bad", "bad-tint", "warn", "warn-tint", "good", "blue", "purple"];
const part = (title, ...shown) => h("section", { class: "s-guide" }, h("h2", {}, title), ...shown);
const field = (label, input) => h("div", { class: "s-field" }, h("label", {}, label), input);

export function mount(root) {
  document.title = "Style guide · moothall studio";
  const states = ["running", "waiting", "done", "error", "stopped", "in_doubt", "budget"];
  replace(root, h("div", { class: "s-root s-guides" },
    h("div", { class: "s-top" }, h("h1", {}, "moothall ", h("span", {}, "style guide")),
      button("Light / dark", () => document.documentElement.classList.toggle("dark"), "quiet")),
    part("Colours", h("div", { class: "s-swatches" }, COLOURS.map((name) => h("div", {}, h("i", { style: `background: var(--s-${name})` }), h("code", {}, name))))),
    part("Text", h("h3", {}, "A heading"), h("p", {}, "Ordinary text, with ", h("a", { href: "#" }, "a link"), " and ", h("code", {}, "code"), "."), h("p", { class: "s-soft" }, "What is said beside it."), h("p", { class: "s-fault" }, "What went wrong.")),
    part("Buttons", h("div", { class: "s-row" }, button("Primary", () => toast("Done.", false), "primary"), button("Ordinary", () => {}), button("Dangerous", () => { throw new Error("It went wrong."); }, "danger"), button("Quiet", () => {}, "quiet"), h("button", { class: "s-button", disabled: true }, "Disabled"))),
    part("Fields", h("div", { class: "s-grid" }, field("A line", h("input", { class: "s-input", placeholder: "an example", "aria-label": "A line" })),
      field("One of several", h("select", { class: "s-input", "aria-label": "One of several" }, h("option", {}, "first"), h("option", {}, "second"))),
      field("Wrong", h("input", { class: "s-input", "aria-invalid": "true", value: "-1", "aria-label": "Wrong" })),
      field("Several lines", h("textarea", { class: "s-input", rows: 2, "aria-label": "Several lines" })))),
    part("States", h("div", { class: "s-row" }, states.map((each) => stateBadge(each)))),
    part("Table", h("table", { class: "s-table" }, h("thead", {}, h("tr", {}, h("th", {}, "Name"), h("th", { class: "number" }, "Number"))),
      h("tbody", {}, [["first", 1], ["second", 22]].map(([name, n]) => h("tr", {}, h("td", {}, name), h("td", { class: "number" }, n)))))),
    part("Chart", chart("Tokens by agent", [0, 1, 2, 5].flatMap((hour) => [{ at: 3600 * hour, of: "first", value: 20 + hour }, { at: 3600 * hour, of: "second", value: 9 }]), String)),
    part("Meter", meter("Half", 1, 2)),
    part("Panel", h("div", { class: "s-panel" }, "A panel holds what belongs together.")),
    part("Tree", h("details", { class: "s-run-part", open: true }, h("summary", {}, h("b", {}, "part")), h("div", {}, "a step"))),
    part("Nothing yet", empty("What to do here is said where there is nothing yet."))));
}
