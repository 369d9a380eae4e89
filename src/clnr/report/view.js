/** Where the reader looks: the centre in the world, pixels a unit, and the map's size in pixels. */
const view = { x: 0, y: 0, k: 1, width: 1, height: 1 };
const CLOSEST = 3000;

/** Pixels a unit at which a box of these half sides fits, in the middle; the whole world, if none are given. */
function fitting(sides = world.sides) {
  const [across, up] = sides.map((side) => Math.max(side, 1e-3));
  // Room at the sides for the buttons.
  const [beside, above] = [Math.min(56, view.width / 11), Math.min(28, view.height / 12)];
  return Math.max(Math.min((view.width / 2 - beside) / across, (view.height / 2 - above) / up, view.width), 1);
}

/** The centre of some nodes, and how close to go so that all of them are in view: at most 16 times as close as to see all. */
function around(chosen) {
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (let at = 0; at < 2 * n; at++) {
    if (!chosen(at >> 1)) continue;
    low[at % 2] = Math.min(low[at % 2], world.points[at]);
    high[at % 2] = Math.max(high[at % 2], world.points[at]);
  }
  const half = [0, 1].map((axis) => (high[axis] - low[axis]) / 2);
  return [low[0] + half[0], low[1] + half[1], Math.min(fitting(half), 16 * fitting())];
}

const bounded = (k) => Math.min(Math.max(k, fitting() / 2), fitting() * CLOSEST);
const zoomed = () => view.k / fitting();
const toScreen = (i) => [
  view.width / 2 + (world.points[2 * i] - view.x) * view.k,
  view.height / 2 - (world.points[2 * i + 1] - view.y) * view.k,
];
const toWorld = (x, y) => [view.x + (x - view.width / 2) / view.k, view.y - (y - view.height / 2) / view.k];

function look(x, y, k) {
  view.k = bounded(k);
  view.x = Math.min(Math.max(x, -world.sides[0]), world.sides[0]);
  view.y = Math.min(Math.max(y, -world.sides[1]), world.sides[1]);
}

/** Zoom so that what lies at a place on the screen stays there. */
function zoomAt(x, y, factor) {
  const [wx, wy] = toWorld(x, y);
  const k = bounded(view.k * factor);
  look(wx - (x - view.width / 2) / k, wy + (y - view.height / 2) / k, k);
}

function resize(width, height) {
  const times = zoomed();
  Object.assign(view, { width, height });
  look(view.x, view.y, fitting() * times);
}

/** How close to go to a node so that those near to it in the embedding are seen apart from it. */
function closeup(i) {
  const away = Array.from(nearOf(i)).filter((other) => other >= 0);
  const far = away.map((j) => Math.hypot(...[0, 1].map((axis) => world.points[2 * i + axis] - world.points[2 * j + axis])));
  const usual = far.sort((a, b) => a - b)[Math.floor(0.7 * far.length)] || 0;
  const least = fitting();
  return usual ? Math.min(Math.max((0.3 * Math.min(view.width, view.height)) / usual, least * 2), least * 400) : least * 3;
}

const still = window.matchMedia("(prefers-reduced-motion: reduce)");
let flight = null;

/** Go there smoothly; any other move ends it. */
function fly(x, y, k) {
  if (still.matches) {
    flight = null;
    look(x, y, k);
  } else flight = { from: { ...view }, to: { x, y, k }, began: performance.now(), lasts: 420 };
}

/** One step of the flight; whether it goes on. */
function flown(now) {
  if (!flight) return false;
  const t = Math.min((now - flight.began) / flight.lasts, 1);
  const s = t < 0 ? 0 : 1 - (1 - t) ** 3;
  const { from, to } = flight;
  look(from.x + s * (to.x - from.x), from.y + s * (to.y - from.y), from.k * (to.k / from.k) ** s);
  if (t >= 1) flight = null;
  return flight !== null;
}

/** Nodes by cell of a grid over the world, so that finding one looks at few. */
const grid = (() => {
  const size = Math.max(1, Math.min(512, Math.ceil(Math.sqrt(n / 2))));
  const cell = (value, side) => Math.min(size - 1, Math.max(0, Math.floor(((value + side) / (2 * side || 1)) * size)));
  const column = (x) => cell(x, world.sides[0]);
  const row = (y) => cell(y, world.sides[1]);
  const first = new Uint32Array(size * size + 1);
  const cells = new Uint32Array(n);
  for (let i = 0; i < n; i++) {
    cells[i] = row(world.points[2 * i + 1]) * size + column(world.points[2 * i]);
    first[cells[i] + 1]++;
  }
  for (let c = 0; c < size * size; c++) first[c + 1] += first[c];
  const next = first.slice(0, -1);
  const nodes = new Uint32Array(n);
  for (let i = 0; i < n; i++) nodes[next[cells[i]]++] = i;

  /** Where among ``nodes`` those begin and end that are in the cells that a box touches, row by row. */
  function* runs(x0, y0, x1, y1) {
    const [left, right] = [column(x0), column(x1)];
    for (let r = row(y0), last = row(y1); r <= last; r++) yield [first[r * size + left], first[r * size + right + 1]];
  }
  return { nodes, runs };
})();

/** The node in focus nearest to a place on the screen, at most `reach` pixels away; -1 if none. */
function pick(x, y, reach) {
  const [wx, wy] = toWorld(x, y);
  const far = reach / view.k;
  let [best, least] = [-1, far * far];
  for (const [begin, end] of grid.runs(wx - far, wy - far, wx + far, wy + far))
    for (let at = begin; at < end; at++) {
      const i = grid.nodes[at];
      const away = (world.points[2 * i] - wx) ** 2 + (world.points[2 * i + 1] - wy) ** 2;
      if (away <= least && inFocus(paint.kind[i]) && (away < least || best < 0 || i < best)) [best, least] = [i, away];
    }
  return best;
}

/** The nodes in view, or none at all if there are more than `most`. */
function inView(most) {
  const [x0, y1] = toWorld(0, 0);
  const [x1, y0] = toWorld(view.width, view.height);
  const found = [];
  let cells = 0;
  for (const [begin, end] of grid.runs(x0, y0, x1, y1)) {
    cells += end - begin;
    if (cells > 50 * most) return [];
    for (let at = begin; at < end; at++) {
      const i = grid.nodes[at];
      const [x, y] = [world.points[2 * i], world.points[2 * i + 1]];
      if (x >= x0 && x <= x1 && y >= y0 && y <= y1) found.push(i);
    }
    if (found.length > most) return [];
  }
  return found;
}

/** A node's radius in pixels: smaller where there are many, larger from close by. */
function radius() {
  const least = Math.max(1.35, 6.6 - 1.05 * Math.log10(n + 1));
  const room = Math.min(Math.max(Math.sqrt(Math.min(view.width, view.height) / 640), 0.75), 1.25);
  return Math.min(least * room * Math.max(zoomed(), 0.6) ** 0.4, 9);
}
