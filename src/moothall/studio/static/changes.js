// What a person may change in a town: what is asked for each change, and what it is for an intervention.

import { parsed } from "./dom.js";

// A fact that a person wrote: a number or a truth value, else a text.
function fact(text) {
  try {
    const value = parsed(text);
    return ["boolean", "number"].includes(typeof value) ? value : text;
  } catch {
    return text;
  }
}

// By kind: its label, what the fields are called that it asks for, what is said if a text among them is empty, and the intervention.
export const CHANGES = {
  news: { label: "Announce something", fields: { text: "Announcement" }, missing: "write a text first", make: ({ text }) => ({ news: [text] }) },
  close: { label: "Close a place", fields: { name: "Place", hours: "For how many hours; empty: until you open it" }, missing: "choose the place that is to close first", make: ({ name, hours }) => ({ close: [name], hours }) },
  open: { label: "Open a place again", fields: { name: "Place" }, missing: "choose the place that is to open first", make: ({ name }) => ({ open: [name] }) },
  closeroad: { label: "Close a street", fields: { name: "Street, or the id of a road, such as n3-n4", hours: "For how many hours; empty: until you open it" }, missing: "name the street that is to close first", make: ({ name, hours }) => ({ close_roads: [name], hours }) },
  openroad: { label: "Open a street again", fields: { name: "Street, or the id of a road, such as n3-n4" }, missing: "name the street that is to open first", make: ({ name }) => ({ open_roads: [name] }) },
  fact: { label: "Set a fact, such as the weather", fields: { name: "Fact, such as weather", text: "Value" }, missing: "write the fact and its value first, such as weather and rain", make: ({ name, text }) => ({ facts: { [name]: fact(text) } }) },
  pay: { label: "Pay money", fields: { amount: "Dollars to each, from the government", name: "Citizen's number; empty: all" }, make: ({ name, amount }) => ({ pay: [["government", name || "everyone", Math.round(100 * amount)]] }) },
};

// The intervention of a kind that what is written in the fields stands for.
export function changeOf(kind, { name = "", text = "", amount = 0, hours = 0 }) {
  const { fields, missing, make } = CHANGES[kind], given = { name: name.trim(), text: text.trim(), amount, hours };
  if (missing && !Object.keys(fields).every((each) => each === "hours" || given[each])) throw new Error(missing);
  return make(given);
}
