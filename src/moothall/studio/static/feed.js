// The one stream of events. Who shows something says what it is about, and what to do when events
// were missed; the stream is opened again by itself.

import { keyed, parsed, request } from "./dom.js";

const handlers = new Map();
const loads = [];
const held = []; // frames that came while something was loaded
const SILENCE = 40000; // milliseconds: the studio is heard more often, if only by an empty frame
let busy = 0;
let epoch = "";
let last = 0;
let wait = 250;
export let state = "connecting"; // or "open" or "lost"; handlers of the topic `state` are told

export function on(topic, handle) {
  if (!handlers.has(topic)) handlers.set(topic, []);
  handlers.get(topic).push(handle);
}

// Load what is shown: once the stream is open, and whenever events were missed. What happens while it
// is loaded is told afterwards, and may be in what was loaded already.
export function onReset(load) {
  loads.push(load);
  if (epoch !== "") loading(load);
}

async function loading(load) {
  busy += 1;
  try {
    await load();
  } catch (error) {
    console.error(error);
  } finally {
    busy -= 1;
    while (!busy && held.length) deliver(held.shift());
  }
}

function become(now) {
  state = now;
  emit("state", now);
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

function deliver(frame) {
  const topics = new Map();
  for (const [, topic, data] of frame.events) {
    if (!topics.has(topic)) topics.set(topic, []);
    topics.get(topic).push(data);
  }
  for (const [topic, batch] of topics) emit(topic, batch);
}

export function connect() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}${keyed(`events?epoch=${epoch}&after=${last}`)}`);
  let silence;
  const hear = () => {
    clearTimeout(silence);
    silence = setTimeout(lose, SILENCE); // a connection may be cut without a word
  };
  function lose() {
    clearTimeout(silence);
    socket.onclose = socket.onmessage = null;
    socket.close();
    become("lost");
    request("cards").catch(() => {}); // where another token is asked for now, the page that asks for it comes
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, 5000);
  }
  socket.onopen = () => {
    wait = 250;
    become("open");
  };
  socket.onmessage = (told) => {
    hear();
    const frame = parsed(told.data);
    epoch = frame.epoch;
    last = frame.last;
    if (frame.reset) for (const load of loads) loading(load);
    if (busy) held.push(frame);
    else deliver(frame);
  };
  socket.onclose = lose;
  hear();
}
