// What the script of another package's tab may import of the page, by "../build.js"; these names stay.

export { attempt, button, call, empty, h, replace, toast, update } from "./dom.js";
export { on, onReset } from "./feed.js";
export { go, onPlace, place } from "./place.js";
