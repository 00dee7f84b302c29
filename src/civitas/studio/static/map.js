// The map of a town on a canvas: roads, places by shape, citizens by colour; density where many are
// in view. It draws when something is new or moves, and between two frames it interpolates.

import { h } from "./dom.js";

const MOST = 3000; // dots in view; of more their density is drawn
const CELL = 6; // pixels of a cell of density
const SPREAD = 15; // metres over which those at one place are spread, so that they can be told apart
const NOWHERE = 65535;
export const GROUPS = ["sleep", "work", "food", "social", "leisure", "travel", "idle"];
const GROUP_OF = { sleep: 0, work: 1, study: 1, eat: 2, shop: 2, social: 3, browse: 3, leisure: 4, travel: 5 };
export const SHAPES = { home: "□", work: "■", school: "▲", shop: "◆", restaurant: "●", park: "✿", hospital: "✚" };

export function makeMap(onPick) {
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": "Map of the town. Plus and minus zoom, arrows move, 0 shows all, Enter picks the citizen nearest to the middle." });
  const tip = h("div", { class: "s-tip", hidden: true });
  const tool = (text, label, work) => h("button", { type: "button", class: "s-button", title: label, "aria-label": label, onclick: work }, text);
  const root = h("div", { class: "s-map" }, canvas, tip,
    h("div", { class: "s-zoom" }, tool("+", "Zoom in", () => zoom(1.4)), tool("−", "Zoom out", () => zoom(1 / 1.4)), tool("⤢", "Show all", () => fit())));
  const context = canvas.getContext("2d");
  const base = document.createElement("canvas");
  const grid = document.createElement("canvas");
  let [width, height, ratio] = [0, 0, 1];
  let plan = null;
  let closed = new Set();
  let view = { x: 0, y: 0, scale: 1 }; // the metres in the middle, and pixels of a metre
  let colours = {};
  let whole = true; // whether all of it is shown, also when the window changes
  let fresh = false; // whether roads and places are drawn as they are to be
  let from = null; // x and y of the frame before, and of the last
  let to = null;
  let acts = new Uint8Array(0);
  let groupOf = [];
  let [began, lasts, last] = [0, 1, 0];
  let picked = -1;
  let asked = 0;

  const px = (x) => (x - view.x) * view.scale + width / 2;
  const py = (y) => height / 2 - (y - view.y) * view.scale;
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  function again() {
    asked ||= requestAnimationFrame(draw);
  }

  function changed() {
    fresh = false;
    again();
  }

  function look() {
    const style = getComputedStyle(root);
    const of = (name) => style.getPropertyValue(`--s-${name}`).trim();
    const groups = GROUPS.map((each) => of(`act-${each}`)); // as #rrggbb
    const rgb = groups.map((each) => [1, 3, 5].map((at) => parseInt(each.slice(at, at + 2), 16)));
    colours = { ink: of("ink"), soft: of("soft"), line: of("line"), paper: of("paper"), park: of("park"), groups, rgb };
    changed();
  }

  function fit() {
    if (!plan) return;
    whole = true;
    const [left, low, wide, tall] = plan.bounds;
    view = { x: left + wide / 2, y: low + tall / 2, scale: 0.96 * Math.min(width / (wide + 3 * SPREAD), height / (tall + 3 * SPREAD)) || 1 };
    changed();
  }

  function zoom(by, x = width / 2, y = height / 2) {
    whole = false;
    const scale = Math.min(20, Math.max(0.002, view.scale * by));
    const part = 1 / view.scale - 1 / scale;
    view = { x: view.x + (x - width / 2) * part, y: view.y - (y - height / 2) * part, scale };
    changed();
  }

  function move(right, down) {
    whole = false;
    view.x += right / view.scale;
    view.y -= down / view.scale;
    changed();
  }

  // -- drawing -------------------------------------------------------------------------------------

  function drawBase() {
    fresh = true;
    base.width = canvas.width;
    base.height = canvas.height;
    const on = base.getContext("2d");
    on.scale(ratio, ratio);
    if (!plan) return;
    on.strokeStyle = colours.line;
    on.lineWidth = Math.min(6, Math.max(1, 7 * view.scale));
    on.lineCap = "round";
    on.beginPath();
    for (const [x1, y1, x2, y2] of plan.roads) {
      on.moveTo(px(x1), py(y1));
      on.lineTo(px(x2), py(y2));
    }
    on.stroke();
    const size = Math.min(18, Math.max(8, 26 * view.scale));
    on.textAlign = "center";
    on.textBaseline = "middle";
    for (const [id, kind, x, y] of plan.places) {
      const [at, up] = [px(x), py(y)];
      if (at < -20 || up < -20 || at > width + 20 || up > height + 20) continue;
      const name = plan.kinds[kind];
      if (view.scale < { home: 0.4, work: 0.15 }[name]) continue; // too many to be told apart
      if (name === "home") {
        const half = Math.min(5, Math.max(1.2, 6 * view.scale));
        on.globalAlpha = 0.45;
        on.strokeStyle = colours.soft;
        on.lineWidth = 1;
        on.strokeRect(at - half, up - half, 2 * half, 2 * half);
        on.globalAlpha = 1;
        continue;
      }
      on.fillStyle = name === "park" ? colours.park : colours.soft;
      on.globalAlpha = name === "work" ? 0.5 : 0.95;
      on.font = `${name === "work" ? 0.6 * size : size}px system-ui, sans-serif`;
      on.fillText(SHAPES[name] || "•", at, up);
      on.globalAlpha = 1;
      if (closed.has(id)) {
        on.fillStyle = colours.ink;
        on.font = `bold ${size * 1.5}px system-ui, sans-serif`;
        on.fillText("✕", at, up);
      }
    }
  }

  let [xs, ys, groups] = [new Float32Array(0), new Float32Array(0), new Uint8Array(0)];

  // Where citizens are now, in pixels; gives how many are in view.
  function place(now) {
    const count = acts.length;
    if (xs.length !== count) [xs, ys, groups] = [new Float32Array(count), new Float32Array(count), new Uint8Array(count)];
    const part = still.matches || !from ? 1 : Math.min(1, (now - began) / lasts);
    let inside = 0;
    for (let i = 0; i < count; i++) {
      if (to.x[i] !== to.x[i]) { xs[i] = -1e6; continue; }
      const known = part < 1 && from.x[i] === from.x[i];
      const x = known ? from.x[i] + part * (to.x[i] - from.x[i]) : to.x[i];
      const y = known ? from.y[i] + part * (to.y[i] - from.y[i]) : to.y[i];
      const angle = i * 2.399963;
      const radius = SPREAD * Math.sqrt(((i * 7919) % 997) / 997);
      xs[i] = px(x + radius * Math.cos(angle));
      ys[i] = py(y + radius * Math.sin(angle));
      groups[i] = groupOf[acts[i]];
      if (xs[i] >= 0 && ys[i] >= 0 && xs[i] < width && ys[i] < height) inside++;
    }
    if (part < 1) again();
    return inside;
  }

  function dots() {
    const size = Math.min(5, Math.max(2.2, 6 * view.scale));
    for (let group = GROUPS.length - 1; group >= 0; group--) {
      context.fillStyle = colours.groups[group];
      context.beginPath();
      for (let i = 0; i < xs.length; i++) {
        if (groups[i] !== group || xs[i] < -9 || ys[i] < -9 || xs[i] > width + 9 || ys[i] > height + 9) continue;
        context.moveTo(xs[i] + size, ys[i]);
        context.arc(xs[i], ys[i], size, 0, 7);
      }
      context.fill();
    }
  }

  let [counts, totals] = [new Uint32Array(0), new Uint32Array(0)];

  // A cell has the colour of what most of those in it do, the stronger the more they are.
  function density() {
    const [across, down, kinds] = [Math.ceil(width / CELL), Math.ceil(height / CELL), GROUPS.length];
    if (grid.width !== across || grid.height !== down || !totals.length) {
      [grid.width, grid.height] = [across, down];
      [counts, totals] = [new Uint32Array(across * down * kinds), new Uint32Array(across * down)];
    }
    counts.fill(0);
    totals.fill(0);
    let most = 1;
    for (let i = 0; i < xs.length; i++) {
      if (!(xs[i] >= 0 && ys[i] >= 0 && xs[i] < width && ys[i] < height)) continue;
      const cell = Math.floor(ys[i] / CELL) * across + Math.floor(xs[i] / CELL);
      counts[cell * kinds + groups[i]]++;
      if (++totals[cell] > most) most = totals[cell];
    }
    const on = grid.getContext("2d");
    const image = on.createImageData(across, down);
    for (let cell = 0; cell < totals.length; cell++) {
      if (!totals[cell]) continue;
      let which = 0;
      for (let k = 1; k < kinds; k++) if (counts[cell * kinds + k] > counts[cell * kinds + which]) which = k;
      image.data.set(colours.rgb[which], cell * 4);
      image.data[cell * 4 + 3] = 255 * (0.3 + 0.7 * Math.log1p(totals[cell]) / Math.log1p(most));
    }
    on.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(grid, 0, 0, across * CELL, down * CELL);
  }

  function draw(now) {
    asked = 0;
    if (!width) return;
    if (!fresh) drawBase();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(base, 0, 0);
    if (!to) return void (root.dataset.drawn = "");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const inside = place(now);
    if (inside > MOST) density();
    else dots();
    root.dataset.drawn = inside > MOST ? "density" : "dots";
    if (picked >= 0 && picked < xs.length) {
      context.strokeStyle = colours.paper;
      context.lineWidth = 5;
      context.beginPath();
      context.arc(xs[picked], ys[picked], 9, 0, 7);
      context.stroke();
      context.strokeStyle = colours.ink;
      context.lineWidth = 2.5;
      context.stroke();
    }
  }

  // -- what a person does --------------------------------------------------------------------------

  function nearest(x, y, within) {
    let [best, found] = [within * within, -1];
    for (let i = 0; i < xs.length; i++) {
      const far = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
      if (far < best) [best, found] = [far, i];
    }
    return found;
  }

  function hover(x, y) {
    let [best, found] = [100, null];
    for (const each of plan?.places || []) {
      const far = (px(each[2]) - x) ** 2 + (py(each[3]) - y) ** 2;
      if (far < best) [best, found] = [far, each];
    }
    tip.hidden = !found;
    if (!found) return;
    const [id, kind, , , holds, name] = found;
    tip.textContent = `${name} · ${name === id ? "" : `${id} · `}${plan.kinds[kind]} for ${holds}${closed.has(id) ? " · closed" : ""}`;
    tip.style.left = `${Math.min(x + 12, Math.max(0, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + (y > height - 50 ? -32 : 14)}px`;
  }

  let drag = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0015), ...at(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { at: at(event), moved: 0 };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (!drag) return hover(x, y);
    move(drag.at[0] - x, drag.at[1] - y);
    drag.moved += Math.abs(drag.at[0] - x) + Math.abs(drag.at[1] - y);
    drag.at = [x, y];
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = drag && drag.moved < 5;
    drag = null;
    const found = clicked ? nearest(...at(event), 16) : -1;
    if (found >= 0) onPick(found);
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("keydown", (event) => {
    const keys = {
      "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit,
      ArrowLeft: () => move(-60, 0), ArrowRight: () => move(60, 0), ArrowUp: () => move(0, -60), ArrowDown: () => move(0, 60),
      Enter: () => { const found = nearest(width / 2, height / 2, 1e5); if (found >= 0) onPick(found); },
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  new ResizeObserver(() => {
    [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    if (whole) fit();
    changed();
  }).observe(canvas);
  new MutationObserver(look).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  new IntersectionObserver(look).observe(root);

  return {
    root,
    // Another town: its places and roads.
    show(its) {
      plan = its;
      [from, to, acts, picked, last] = [null, null, new Uint8Array(0), -1, 0];
      fit();
    },
    // Where its citizens are: n times x, n times y in 16 bits, n times what they do in 8.
    frame(packed, names, shut) {
      if (shut.join() !== [...closed].join()) {
        closed = new Set(shut);
        changed();
      }
      const count = packed.byteLength / 5;
      const spots = new Uint16Array(packed, 0, 2 * count);
      const [left, low, wide, tall] = plan.bounds;
      const there = (values, least, most) => Float32Array.from(values, (each) => (each === NOWHERE ? NaN : least + (each / (NOWHERE - 1)) * most));
      const now = performance.now();
      from = to && to.x.length === count ? to : null;
      to = { x: there(spots.subarray(0, count), left, wide), y: there(spots.subarray(count), low, tall) };
      acts = new Uint8Array(packed, 4 * count, count);
      groupOf = names.map((each) => GROUP_OF[each] ?? 6);
      lasts = Math.min(2000, Math.max(90, last ? now - last : 90));
      [began, last] = [now, now];
      again();
    },
    pick(index) {
      picked = index;
      again();
    },
  };
}
