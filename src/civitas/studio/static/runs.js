// Every run of the journal.

import { empty, replace } from "./dom.js";

export function mount(root) {
  replace(root, empty("The runs of the journal."));
}
