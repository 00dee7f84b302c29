// What a person has written and not sent yet, over a reload of this window: words that nobody has got
// are nowhere else.

const KEPT = "moothall-drafts";
const MOST = 200; // drafts that are kept, the last ones
let drafts = new Map();
try { drafts = new Map(JSON.parse(sessionStorage.getItem(KEPT) || "[]")); } catch { /* of another version */ }

export const draft = (key) => drafts.get(key);

export function keep(key, value) {
  drafts.delete(key);
  if (value !== undefined && value !== "") drafts.set(key, value);
  store();
}

// Forget all whose keys begin so: they were sent.
export function forget(prefix) {
  for (const key of [...drafts.keys()]) if (key.startsWith(prefix)) drafts.delete(key);
  store();
}

function store() {
  while (drafts.size > MOST) drafts.delete(drafts.keys().next().value);
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([...drafts]));
  } catch { /* it is full: the newest lives as long as the page */ }
}

// Fill a field with what was written in it, and keep what is written from now on.
export function drafted(field, key) {
  const check = field.type === "checkbox";
  const was = draft(key);
  if (check && typeof was === "boolean") field.checked = was;
  else if (!check && typeof was === "string") field.value = was;
  const now = () => keep(key, check ? field.checked : field.value);
  field.addEventListener("input", now);
  field.addEventListener("change", now); // of a choice; also of what is set when it is sent
  return field;
}
