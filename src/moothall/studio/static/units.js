// Amounts as people read them, by the `format` of their schema: `money` or `money:EUR`, `bytes`, `percent`, a unit of time.

import { duration, h } from "./dom.js";

const UNITS = { bytes: "bytes", percent: "%", microseconds: "µs", milliseconds: "ms", seconds: "s", minutes: "min", hours: "h", days: "days" };
const SECONDS = { microseconds: 1e-6, milliseconds: 1e-3, seconds: 1, minutes: 60, hours: 3600 };
const STEPS = ["kB", "MB", "GB", "TB", "PB"];

// The unit that a format stands for, empty for money of no named currency; null for a format of no amount.
export function unitOf(format) {
  const [kind, of = ""] = String(format ?? "").split(":");
  return kind === "money" ? of : Object.hasOwn(UNITS, kind) ? UNITS[kind] : null;
}

// About how much it is, where its digits are hard to read.
function about(kind, n) {
  if (kind === "bytes" && Math.abs(n) >= 1000) {
    const step = Math.min(STEPS.length, Math.floor(Math.log10(Math.abs(n)) / 3));
    return `${+(n / 1000 ** step).toPrecision(3)} ${STEPS[step - 1]}`;
  }
  const seconds = n * (SECONDS[kind] ?? NaN);
  return (kind === "seconds" ? seconds >= 120 : kind.endsWith("seconds") && n >= 1000) ? duration(seconds) : "";
}

// A number, or a text of digits, with its unit and every digit that it has; null for anything else.
export function amount(text, format) {
  const unit = unitOf(format), parts = unit !== null && /^(-?)(\d+)(?:\.(\d+))?$/.exec(text);
  if (!parts) return null;
  const [, sign, whole, part = ""] = parts, kind = format.split(":")[0], cents = kind === "money" ? part.padEnd(2, "0") : part;
  const said = `${sign}${whole.replace(/\B(?=(\d{3})+$)/g, ",")}${cents && `.${cents}`} ${unit}`.trim(), rough = about(kind, +text);
  return [said, rough && h("span", { class: "s-soft" }, `  ${rough}`)];
}
