// The one stream of events. Who shows something says what it is about, and what to do when events
// were missed; the stream is opened again by itself.

const handlers = new Map();
const states = new Set();
let epoch = "";
let last = 0;
let wait = 250;
let state = "connecting";

export function on(topic, handle) {
  if (!handlers.has(topic)) handlers.set(topic, []);
  handlers.get(topic).push(handle);
}

// Called at once and whenever the connection changes: "connecting", "open" or "lost".
export function onState(tell) {
  states.add(tell);
  tell(state);
}

// Load what is shown, now and whenever events were missed.
export function onReset(load) {
  on("reset", load);
  return load();
}

function become(now) {
  state = now;
  for (const tell of states) tell(now);
}

function emit(topic, batch) {
  for (const handle of handlers.get(topic) || []) {
    try {
      handle(batch);
    } catch (error) {
      console.error(topic, error);
    }
  }
}

export function connect() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}/studio/events?epoch=${epoch}&after=${last}`);
  socket.onopen = () => {
    wait = 250;
    become("open");
  };
  socket.onmessage = (told) => {
    const frame = JSON.parse(told.data);
    const missed = frame.reset && epoch !== "";
    epoch = frame.epoch;
    last = frame.last;
    if (missed) emit("reset");
    const topics = new Map();
    for (const [, topic, data] of frame.events) {
      if (!topics.has(topic)) topics.set(topic, []);
      topics.get(topic).push(data);
    }
    for (const [topic, batch] of topics) emit(topic, batch);
  };
  socket.onclose = () => {
    become("lost");
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, 5000);
  };
}
