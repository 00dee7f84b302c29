// The map of a town on a canvas: streets, places by shape, citizens by colour; density where many are
// in view. It draws when something is new or moves; between two frames citizens go along the streets.

import { h } from "./dom.js";
import { along, makeStreets } from "./streets.js";

const MOST = 3000; // dots in view; of more their density is drawn
const CELL = 6; // pixels of a cell of density
const SPREAD = 8; // metres over which those at one place are spread, so that they can be told apart
const STREETS = [6, 9, 15]; // metres: how wide a street of each class is
const SCALES = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]; // metres
const NOWHERE = 65535;
const BINS = 9; // colours of a layer
const NO_LEVEL = 255;
const QUICK = 6; // milliseconds for roads and places: if they take longer, a zoom shows them scaled until it rests
const RESTS = 150;
export const GROUPS = ["sleep", "work", "food", "social", "leisure", "travel", "idle"];
export const NAMES = { sleep: "asleep", work: "at work or school", food: "eat or shop", social: "with others", leisure: "free time", travel: "on the way", idle: "else" };
export const GROUP_OF = { sleep: 0, work: 1, study: 1, eat: 2, shop: 2, social: 3, browse: 3, leisure: 4, travel: 5 };
export const SHAPES = { home: "□", work: "■", school: "▲", shop: "◆", restaurant: "●", park: "✿", hospital: "✚" };

export function makeMap(onPick, label = "Map of the town", onPlace = null, onRoad = null) { // a citizen, or a place where none is, or a road
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": `${label}. Plus, minus and Ctrl with the wheel zoom, arrows move, 0 shows all, Enter picks the citizen nearest to the middle.` });
  const tip = h("div", { class: "s-tip", hidden: true });
  const tool = (text, label, work) => h("button", { type: "button", class: "s-button", title: label, "aria-label": label, onclick: work }, text);
  const scale = h("div", { class: "s-scale", "aria-hidden": true });
  const root = h("div", { class: "s-map" }, canvas, tip, scale,
    h("div", { class: "s-zoom" }, tool("+", "Zoom in", () => zoom(1.4)), tool("−", "Zoom out", () => zoom(1 / 1.4)), tool("⤢", "Show all", () => fit())));
  const context = canvas.getContext("2d");
  const base = document.createElement("canvas");
  const grid = document.createElement("canvas");
  let [width, height, ratio] = [0, 0, 1];
  let [plan, streets, closed, closedRoads, colours] = [null, null, new Set(), new Set(), {}];
  let view = { x: 0, y: 0, scale: 1 }; // the metres in the middle, and pixels of a metre
  let whole = true; // whether all of it is shown, also when the window changes
  let fresh = false; // whether roads and places are drawn as they are to be
  let [drawnAt, took, resting] = [null, 0, 0]; // of what view they are drawn, in how many milliseconds
  let [from, to, ways] = [null, null, []]; // x and y of the frame before, and of the last; the way of who goes
  let [spot, over] = [null, false]; // the place that is looked for; whether the pointer is at one
  let [acts, groupOf, picked, asked] = [new Uint8Array(0), [], -1, 0];
  let [levels, isBoth] = [null, false]; // of a layer: each citizen's level, and whether it goes from below to above 0
  let [began, lasts, last] = [0, 1, 0];

  const spread = () => plan?.spread ?? SPREAD;

  const px = (x) => (x - view.x) * view.scale + width / 2;
  const py = (y) => height / 2 - (y - view.y) * view.scale;
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const again = () => void (asked ||= requestAnimationFrame(draw));
  const changed = () => {
    fresh = false;
    again();
  };

  function look() {
    const style = getComputedStyle(root);
    const of = (name) => style.getPropertyValue(`--s-${name}`).trim();
    const groups = GROUPS.map((each) => of(`act-${each}`)); // as #rrggbb
    const rgb = groups.map((each) => [1, 3, 5].map((at) => parseInt(each.slice(at, at + 2), 16)));
    const ends = ["line", "accent", "blue", "bad"].map((name) => [1, 3, 5].map((at) => parseInt(of(name).slice(at, at + 2), 16)));
    const mix = (one, other, part) => one.map((each, at) => Math.round(each + (other[at] - each) * part));
    const steps = [...Array(BINS).keys()].map((at) => at / (BINS - 1));
    colours.one = steps.map((part) => mix(ends[0], ends[1], 0.1 + 0.9 * part));
    colours.both = steps.map((part) => (part < 0.5 ? mix(ends[2], ends[0], 2 * part) : mix(ends[0], ends[3], 2 * part - 1)));
    colours = { ...colours, ink: of("ink"), soft: of("soft"), line: of("line"), paper: of("paper"), park: of("park"), curb: of("curb"), ground: of("ground"), groups, rgb };
    changed();
  }

  function turn(its, isWhole = false) {
    [view, whole] = [{ ...view, ...its }, isWhole];
    canvas.style.touchAction = whole ? "pan-y" : "none"; // over the whole map a finger scrolls the page
    if (took < QUICK || !fresh) return changed();
    clearTimeout(resting);
    resting = setTimeout(changed, RESTS);
    again();
  }

  function fit() {
    if (!plan) return;
    const [left, low, wide, tall] = plan.bounds;
    turn({ x: left + wide / 2, y: low + tall / 2, scale: 0.96 * Math.min(width / (wide + 3 * spread()), height / (tall + 3 * spread())) || 1 }, true);
  }

  function zoom(by, x = width / 2, y = height / 2) {
    const scale = Math.min(20, Math.max(0.002, view.scale * by));
    const part = 1 / view.scale - 1 / scale;
    turn({ x: view.x + (x - width / 2) * part, y: view.y - (y - height / 2) * part, scale });
  }

  const move = (right, down) => turn({ x: view.x + right / view.scale, y: view.y - down / view.scale });

  // -- drawing -------------------------------------------------------------------------------------

  function drawBase() {
    if (!colours.ink) look(); // it was made before it had a place on the page
    const began = performance.now();
    drawPlan();
    drawScale();
    [fresh, drawnAt, took] = [true, view, performance.now() - began];
  }

  function drawPlan() {
    [base.width, base.height] = [canvas.width, canvas.height];
    const on = base.getContext("2d");
    on.scale(ratio, ratio);
    if (!plan) return;
    Object.assign(on, { lineCap: "round", textAlign: "center", textBaseline: "middle" });
    if ("cell" in plan && !plan.roads.length) {
      const [left, low, wide, tall] = plan.bounds;
      Object.assign(on, { strokeStyle: colours.curb, lineWidth: 1 });
      on.strokeRect(px(left), py(low + tall), wide * view.scale, tall * view.scale);
    }
    for (const [strokeStyle, edge] of [[colours.curb, 1], [colours.paper, -1]]) { // the edges of all, then the streets
      STREETS.forEach((metres, of) => {
        const wide = Math.max(2 + 1.5 * of, metres * view.scale);
        if (edge < 0 && wide < 4) return; // a line
        Object.assign(on, { strokeStyle, lineWidth: edge < 0 ? wide - 2 : wide });
        on.beginPath();
        for (const [a, b, its] of plan.roads) {
          if (its !== of) continue;
          on.moveTo(px(plan.nodes[a][0]), py(plan.nodes[a][1]));
          on.lineTo(px(plan.nodes[b][0]), py(plan.nodes[b][1]));
        }
        on.stroke();
      });
    }
    Object.assign(on, { strokeStyle: colours.ink, lineWidth: 3 });
    on.setLineDash([2, 6]);
    on.beginPath();
    for (const [a, b, , id] of closedRoads.size ? plan.roads : []) {
      if (!closedRoads.has(id)) continue;
      on.moveTo(px(plan.nodes[a][0]), py(plan.nodes[a][1]));
      on.lineTo(px(plan.nodes[b][0]), py(plan.nodes[b][1]));
    }
    on.stroke();
    on.setLineDash([]);
    const size = Math.min(18, Math.max(8, 26 * view.scale));
    const sign = (text, at, up, font, fillStyle, globalAlpha = 1) => {
      Object.assign(on, { font: `${font}px system-ui, sans-serif`, fillStyle, globalAlpha });
      on.fillText(text, at, up);
    };
    for (const [id, kind, x, y] of plan.places) {
      const [at, up, name] = [px(x), py(y), plan.kinds[kind]];
      if (at < -20 || up < -20 || at > width + 20 || up > height + 20) continue;
      if (view.scale < { home: 0.3, work: 0.15 }[name]) continue; // too many to be told apart
      if (name === "home" || name === "work") {
        const wide = Math.max(3, 8 * view.scale);
        Object.assign(on, { strokeStyle: colours.soft, fillStyle: name === "home" ? colours.paper : colours.soft, lineWidth: 1, globalAlpha: 0.55 });
        on.beginPath();
        on.rect(at - wide / 2, up - wide / 2, wide, wide);
        on.fill();
        on.stroke();
      } else {
        if (name === "park") {
          Object.assign(on, { fillStyle: colours.park, globalAlpha: 0.15 });
          on.beginPath();
          on.arc(at, up, 16 * view.scale, 0, 7);
          on.fill();
        }
        sign(SHAPES[name] || "•", at, up, size, name === "park" ? colours.park : colours.soft, 0.95);
      }
      if (closed.has(id)) sign("✕", at, up, `bold ${size * 1.5}`, colours.ink);
    }
  }

  // The names of the quarters stand above the citizens.
  function drawNames() {
    if (Math.min(...plan.bounds.slice(2)) * view.scale < 360) return; // too small for three in a row
    Object.assign(context, { textAlign: "center", textBaseline: "middle", letterSpacing: "2px", strokeStyle: colours.ground, fillStyle: colours.ink, lineWidth: 3, lineJoin: "round", font: "600 12px system-ui, sans-serif", globalAlpha: 0.85 });
    for (const [name, x, y] of plan.quarters) {
      context.strokeText(name.toUpperCase(), px(x), py(y));
      context.fillText(name.toUpperCase(), px(x), py(y));
    }
    context.globalAlpha = 1;
  }

  // A bar of a round number of metres, about a seventh of the map.
  function drawScale() {
    scale.hidden = plan && "cell" in plan; // a model has no metres
    const metres = SCALES.findLast((each) => each * view.scale <= Math.max(70, width / 7)) || SCALES[0];
    scale.style.width = `${metres * view.scale}px`;
    scale.textContent = metres < 1000 ? `${metres} m` : `${metres / 1000} km`;
  }

  let [xs, ys, dx, dy] = [[], [], [], []]; // of each citizen, pixels, and metres beside its place
  const seen = (i, beyond = 0) => xs[i] >= -beyond && ys[i] >= -beyond && xs[i] < width + beyond && ys[i] < height + beyond;

  // Where citizens are now, in pixels; gives how many are in view.
  function place(now) {
    if (xs.length !== acts.length) {
      [xs, ys, dx, dy] = [0, 1, 2, 3].map(() => new Float32Array(acts.length));
      for (let i = 0; i < xs.length; i++) {
        const [angle, radius] = [i * 2.399963, spread() * Math.sqrt(((i * 7919) % 997) / 997)];
        dx[i] = radius * Math.cos(angle);
        dy[i] = radius * Math.sin(angle);
      }
    }
    const part = still.matches || !from ? 1 : Math.min(1, (now - began) / lasts);
    const { x: right, y: up } = to;
    const { x: left, y: low } = part < 1 ? from : to;
    const between = (one, two) => (one === one ? one + part * (two - one) : two); // who was nowhere comes at once
    const [zeroX, zeroY, scale] = [width / 2 - view.x * view.scale, height / 2 + view.y * view.scale, view.scale];
    let inside = 0;
    for (let i = 0; i < xs.length; i++) { // who is nowhere is at NaN, and so never in view
      xs[i] = zeroX + (between(left[i], right[i]) + dx[i]) * scale;
      ys[i] = zeroY - (between(low[i], up[i]) + dy[i]) * scale;
      if (part < 1 && ways[i]) {
        const [x, y] = along(ways[i], part);
        [xs[i], ys[i]] = [zeroX + (x + dx[i] * 0.3) * scale, zeroY - (y + dy[i] * 0.3) * scale];
      }
      if (seen(i)) inside++;
    }
    if (part < 1) again();
    return inside;
  }

  const binOf = (level) => (level === NO_LEVEL ? BINS : Math.floor((level * BINS) / NO_LEVEL));

  function dots() {
    const cell = 0.45 * (plan.cell || 0) * view.scale; // half of a square, where one citizen fills a cell
    const size = cell || Math.min(5, Math.max(2, 4 * view.scale));
    const ramp = isBoth ? colours.both : colours.one;
    const fills = levels ? [...ramp.map((each) => `rgb(${each})`), colours.groups[6]] : colours.groups;
    for (let group = fills.length - 1; group >= 0; group--) {
      context.fillStyle = fills[group];
      context.beginPath();
      for (let i = 0; i < xs.length; i++) {
        if ((levels ? binOf(levels[i]) : groupOf[acts[i]]) !== group || !seen(i, 9)) continue;
        if (cell) context.rect(xs[i] - size, ys[i] - size, 2 * size, 2 * size);
        else {
          context.moveTo(xs[i] + size, ys[i]);
          context.arc(xs[i], ys[i], size, 0, 7);
        }
      }
      context.fill();
    }
  }

  // A cell has the colour of what most of those in it do, or of their mean level, the stronger the more they are.
  function density() {
    const [across, down, kinds] = [Math.ceil(width / CELL), Math.ceil(height / CELL), levels ? 2 : GROUPS.length];
    [grid.width, grid.height] = [across, down];
    const ramp = isBoth ? colours.both : colours.one;
    const [counts, totals] = [new Uint32Array(across * down * kinds), new Uint32Array(across * down)];
    let most = 1;
    for (let i = 0; i < xs.length; i++) {
      if (!seen(i)) continue;
      const cell = Math.floor(ys[i] / CELL) * across + Math.floor(xs[i] / CELL);
      if (!levels) counts[cell * kinds + groupOf[acts[i]]]++;
      else if (levels[i] !== NO_LEVEL) {
        counts[cell * kinds] += levels[i];
        counts[cell * kinds + 1]++;
      }
      most = Math.max(most, ++totals[cell]);
    }
    const on = grid.getContext("2d");
    const image = on.createImageData(across, down);
    for (let cell = 0; cell < totals.length; cell++) {
      if (!totals[cell]) continue;
      let which = 0;
      const its = cell * kinds;
      if (!levels) for (let kind = 1; kind < kinds; kind++) if (counts[its + kind] > counts[its + which]) which = kind;
      const colour = !levels ? colours.rgb[which] : counts[its + 1] ? ramp[binOf(Math.round(counts[its] / counts[its + 1]))] : colours.rgb[6];
      for (let at = 0; at < 3; at++) image.data[cell * 4 + at] = colour[at];
      image.data[cell * 4 + 3] = 255 * (0.3 + 0.7 * Math.log1p(totals[cell]) / Math.log1p(most));
    }
    on.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(grid, 0, 0, across * CELL, down * CELL);
  }

  function draw(now) {
    asked = 0;
    if (!width || !height) return;
    if (!fresh) drawBase();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    const scale = view.scale / drawnAt.scale; // where what is drawn stands now
    context.drawImage(base, ratio * (width / 2 - (view.x - drawnAt.x) * view.scale - scale * width / 2), ratio * (height / 2 + (view.y - drawnAt.y) * view.scale - scale * height / 2), scale * base.width, scale * base.height);
    if (!to) return void (root.dataset.drawn = "");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const isDense = place(now) > MOST;
    if (isDense) density();
    else dots();
    drawNames();
    root.dataset.drawn = isDense ? "density" : "dots";
    if (spot) {
      ring(px(spot[2]), py(spot[3]), 13);
      if (!over) tell(spot, px(spot[2]), py(spot[3]));
    }
    if (picked >= 0 && picked < xs.length) ring(xs[picked], ys[picked], 9);
  }

  function ring(x, y, radius) {
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    for (const [strokeStyle, lineWidth] of [[colours.paper, 5], [colours.ink, 2.5]]) {
      Object.assign(context, { strokeStyle, lineWidth });
      context.stroke();
    }
  }

  // -- what a person does --------------------------------------------------------------------------

  // Which of some places is nearest to a point, by its index; -1 if none is so near.
  function nearest(x, y, within, count, where) {
    let [best, found] = [within * within, -1];
    for (let i = 0; i < count; i++) {
      const [left, top] = where(i);
      const far = (left - x) ** 2 + (top - y) ** 2;
      if (far < best) [best, found] = [far, i];
    }
    return found;
  }

  function pickAt(x, y, within) {
    const found = nearest(x, y, within, xs.length, (i) => [xs[i], ys[i]]);
    if (found >= 0) return onPick(found);
    const place = plan?.places[nearestPlace(x, y)];
    if (place && onPlace) return onPlace(place[0]);
    const road = plan?.roads[nearestRoad(x, y)];
    if (road?.[3] && onRoad) onRoad(road[3], road[4]);
  }

  // The road that is nearest to a point, by its index; -1 if none is within a few pixels.
  function nearestRoad(x, y) {
    return nearest(x, y, 10, plan?.roads.length || 0, (i) => {
      const [[ax, ay], [bx, by]] = plan.roads[i].slice(0, 2).map((end) => [px(plan.nodes[end][0]), py(plan.nodes[end][1])]);
      const part = Math.min(1, Math.max(0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1)));
      return [ax + part * (bx - ax), ay + part * (by - ay)];
    });
  }

  const nearestPlace = (x, y) => nearest(x, y, 10, plan?.places.length || 0, (i) => [px(plan.places[i][2]), py(plan.places[i][3])]);

  function hover(x, y) {
    const found = plan?.places[nearestPlace(x, y)];
    over = Boolean(found);
    if (found || spot) tell(found || spot, ...(found ? [x, y] : [px(spot[2]), py(spot[3])]));
    else tip.hidden = true;
  }

  // What stands there, beside a point.
  function tell([id, kind, , , holds, name], x, y) {
    tip.hidden = false;
    tip.textContent = `${name} · ${name === id ? "" : `${id} · `}${plan.kinds[kind]} for ${holds}${closed.has(id) ? " · closed" : ""}`;
    tip.style.left = `${Math.min(x + 12, Math.max(0, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + (y > height - 50 ? -32 : 14)}px`;
  }

  let drag = null;
  const at = (event) => [event.offsetX, event.offsetY];
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
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
    if (whole && event.pointerType === "touch") return;
    move(drag.at[0] - x, drag.at[1] - y);
    drag.moved += Math.abs(drag.at[0] - x) + Math.abs(drag.at[1] - y);
    drag.at = [x, y];
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && drag.moved < 5) pickAt(...at(event), 16);
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => hover(-99, -99));
  canvas.addEventListener("keydown", (event) => {
    const work = {
      "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit,
      ArrowLeft: () => move(-60, 0), ArrowRight: () => move(60, 0), ArrowUp: () => move(0, -60), ArrowDown: () => move(0, 60),
      Enter: () => pickAt(width / 2, height / 2, 1e5),
    }[event.key];
    if (!work || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    work();
  });
  new ResizeObserver(() => {
    [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    if (whole) fit();
    changed();
  }).observe(canvas);
  new MutationObserver(look).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
  new IntersectionObserver(look).observe(root);

  return {
    root,
    // Another town: its places and roads.
    show(its) {
      [plan, streets] = [its, its && makeStreets(its)];
      [from, to, ways, acts, picked, last, xs] = [null, null, [], new Uint8Array(0), -1, 0, []];
      [spot, tip.hidden] = [null, true];
      root.dataset.drawn = ""; // nobody is on it until it is drawn
      fit();
    },
    // Where its citizens are: n times x, n times y in 16 bits, n times what they do in 8, and with a
    // layer n times their level in 8.
    frame(packed, names, shut, shutRoads, layer) {
      if (shut.join() !== [...closed].join() || shutRoads.join() !== [...closedRoads].join()) {
        [closed, closedRoads] = [new Set(shut), new Set(shutRoads)];
        changed();
      }
      const count = packed.byteLength / (layer ? 6 : 5);
      const [left, low, wide, tall] = plan.bounds;
      const there = (at, least, most) => Float32Array.from(new Uint16Array(packed, at, count), (each) => (each === NOWHERE ? NaN : least + (each / (NOWHERE - 1)) * most));
      const now = performance.now();
      from = to && to.x.length === count ? to : null;
      to = { x: there(0, left, wide), y: there(2 * count, low, tall) };
      acts = new Uint8Array(packed, 4 * count, count);
      ways = [];
      for (let i = 0; i < count && count <= MOST; i++) {
        if (names[acts[i]] === "travel") [to.x[i], to.y[i]] = streets.on(to.x[i], to.y[i]);
        if (from && !still.matches && Math.hypot(to.x[i] - from.x[i], to.y[i] - from.y[i]) > 1) ways[i] = streets.way(from.x[i], from.y[i], to.x[i], to.y[i]);
      }
      groupOf = names.map((each) => GROUP_OF[each] ?? 6);
      levels = layer ? new Uint8Array(packed, 5 * count, count) : null;
      isBoth = layer?.least < 0;
      root.dataset.layer = layer?.layer ?? "";
      lasts = Math.min(2000, Math.max(90, last ? now - last : 90));
      [began, last] = [now, now];
      again();
    },
    // The places whose id, name or kind begins with some words.
    places(words) {
      const is = (text) => text.toLowerCase().startsWith(words.toLowerCase());
      return (plan?.places || []).filter(([id, kind, , , , name]) => is(id) || is(name) || is(plan.kinds[kind])).map((each) => [...each.slice(0, 6), plan.kinds[each[1]]]);
    },
    // Show where a place is, by its id.
    spot(id) {
      spot = plan.places.find((each) => each[0] === id) || null;
      fit();
      again();
    },
    pick(index) {
      [spot, tip.hidden] = [null, true];
      picked = index;
      again();
    },
  };
}
