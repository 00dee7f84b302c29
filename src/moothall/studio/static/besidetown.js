// A town beside the shown one: its map, its time and its rows. It follows: it lives a step when the
// first has.

import { button, call, h, isGood, oneAtATime, replace, request } from "./dom.js";
import { makeMap } from "./map.js";

const ROWS = 3000;
const post = (path, body) => call(`society/${path}`, body);

// A frame of a town: what is said of it, and where its citizens are.
export async function frameOf(town, rows, layer, beside = false) {
  const answer = await request(`society/frame?town=${town}&after=${rows.length ? rows.at(-1)[0] + 1 : 0}&layer=${encodeURIComponent(layer)}&second=${beside}`);
  if (!isGood(answer)) throw new Error(`failed (${answer.status})`);
  const packed = await answer.arrayBuffer();
  const length = new DataView(packed).getUint32(0, true);
  return [JSON.parse(new TextDecoder().decode(packed.slice(4, 4 + length))), packed.slice(4 + length)];
}

export const more = (rows, now) => rows.concat(now.rows || []).slice(-ROWS);

// `maps` gets its map; `when(iso)` is a time in words; `onPick(index)` is called for a clicked citizen,
// `changed()` when its rows are new.
export function besideTown(maps, when, onPick, changed) {
  let [head, rows, planOf, layer] = [{ town: 0 }, [], 0, ""];
  const map = makeMap(onPick, "Map of the town beside it");
  const time = h("b", {});
  const told = h("span", { class: "s-soft" });
  const bar = h("div", { class: "s-row s-second", role: "group", "aria-label": "The town beside it", hidden: true }, h("span", { class: "s-soft" }, "The second map and the dashed lines: "), time, told,
    button("Swap", () => post("swap", {}), "quiet"), button("Close", () => post("put_beside", { run: "" }), "quiet"));

  const load = oneAtATime(async () => {
    const [now, citizens] = await frameOf(head.town, rows, layer, true);
    if (now.town !== head.town) {
      rows = [];
      map.show(null);
    }
    [head, rows] = [now, more(rows, now)];
    const lives = citizens.byteLength > 0;
    time.textContent = lives ? when(now.time) : now.fault ? "It failed" : "is being set up …";
    replace(told, ` · ${now.fault || (lives ? `step ${now.step.toLocaleString("en")} of ${now.steps.toLocaleString("en")}` : now.about || "")} · run ${now.run}`);
    if (!lives) return;
    if (planOf !== now.town) {
      map.show(await call("society/map?second=true"));
      planOf = now.town;
    }
    map.frame(citizens, now.acts, now.closed, now.closed_roads, now.level);
    changed();
  }, 0);

  return {
    bar,
    pick: map.pick,
    rows: () => rows,
    // Load what is new of the town of a number; null where there is none.
    look(number, its) {
      bar.hidden = !number;
      layer = its;
      if (number) {
        if (!map.root.isConnected) maps.append(map.root);
        return load();
      }
      map.root.remove();
      [head, rows, planOf] = [{ town: 0 }, [], 0];
    },
  };
}
