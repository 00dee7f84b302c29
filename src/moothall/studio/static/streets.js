// Ways along the streets of a town, for citizens who go from one place to another between two frames.

const MOST = 2000; // crossings; in a larger town they go straight

// `nodes` are [x, y] in metres, `roads` [a, b, class]. Gives `way(x1, y1, x2, y2)`: the corners of a
// way along streets, as [x, y] with both ends; null where there is none. `on(x, y)` is the nearest
// point of a street.
export function makeStreets({ nodes, roads }) {
  if (!roads.length || nodes.length > MOST) return { way: () => null, on: (x, y) => [x, y] };
  const length = ([ax, ay], [bx, by]) => Math.hypot(bx - ax, by - ay);
  const next = nodes.map(() => []);
  for (const [a, b] of roads) {
    const far = length(nodes[a], nodes[b]);
    next[a].push([b, far]);
    next[b].push([a, far]);
  }
  const [trees, onStreet] = [new Map(), new Map()];

  // The metres from a crossing to all, and of each the crossing before it.
  function tree(from) {
    if (trees.has(from)) return trees.get(from);
    const far = new Float64Array(nodes.length).fill(Infinity);
    const before = new Int32Array(nodes.length).fill(-1);
    far[from] = 0;
    let edge = [from];
    while (edge.length) { // Bellman and Ford by rounds: streets have few hops
      const changed = new Set();
      for (const at of edge) for (const [to, metres] of next[at]) {
        if (far[at] + metres >= far[to]) continue;
        [far[to], before[to]] = [far[at] + metres, at];
        changed.add(to);
      }
      edge = [...changed];
    }
    trees.set(from, { far, before });
    return trees.get(from);
  }

  // The nearest point of a street: the point, and the street's ends.
  function nearest(x, y) {
    const key = `${x} ${y}`;
    if (onStreet.has(key)) return onStreet.get(key);
    let [best, found] = [Infinity, null];
    for (const [a, b] of roads) {
      const [[ax, ay], [bx, by]] = [nodes[a], nodes[b]];
      const part = Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1)));
      const point = [ax + part * (bx - ax), ay + part * (by - ay)];
      const far = length(point, [x, y]);
      if (far < best) [best, found] = [far, { point, ends: [a, b] }];
    }
    if (onStreet.size > 20000) onStreet.clear();
    onStreet.set(key, found);
    return found;
  }

  function way(x1, y1, x2, y2) {
    const [from, to] = [nearest(x1, y1), nearest(x2, y2)];
    const corners = [];
    if (from.ends !== to.ends && from.ends.join() !== to.ends.join()) {
      let [best, start, end] = [Infinity, -1, -1];
      for (const a of from.ends) for (const b of to.ends) {
        const far = length(from.point, nodes[a]) + tree(a).far[b] + length(nodes[b], to.point);
        if (far < best) [best, start, end] = [far, a, b];
      }
      if (best === Infinity) return null;
      const { before } = tree(start);
      for (let at = end; at !== -1; at = before[at]) corners.unshift(nodes[at]);
    }
    return [[x1, y1], from.point, ...corners, to.point, [x2, y2]];
  }

  return { way, on: (x, y) => nearest(x, y).point };
}

// Where one is after a part (0 to 1) of a way.
export function along(way, part) {
  const lengths = way.slice(1).map(([x, y], at) => Math.hypot(x - way[at][0], y - way[at][1]));
  let left = part * lengths.reduce((sum, each) => sum + each, 0);
  for (const [at, each] of lengths.entries()) {
    if (left <= each && each) return [way[at][0] + (left / each) * (way[at + 1][0] - way[at][0]), way[at][1] + (left / each) * (way[at + 1][1] - way[at][1])];
    left -= each;
  }
  return way.at(-1);
}
