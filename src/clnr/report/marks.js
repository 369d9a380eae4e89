/** What the reader chose and points at; -1 for nothing. */
const state = { selected: -1, hover: -1 };
const FEW = 24;
const LABEL = 28;
const SPOKES = 100;

function inks() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "card", "accent"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
let ink = inks();

const marker = element("marks-layer").getContext("2d");

function ring(i, r, width, colour) {
  const [x, y] = toScreen(i);
  for (const [line, stroke] of [[width + 2.5, ink.card], [width, colour]]) {
    marker.beginPath();
    marker.arc(x, y, r, 0, 2 * Math.PI);
    marker.lineWidth = line;
    marker.strokeStyle = stroke;
    marker.stroke();
  }
}

function disc(i, r, colour) {
  const [x, y] = toScreen(i);
  for (const [size, fill] of [[r + 1.25, ink.card], [r, colour]]) {
    marker.beginPath();
    marker.arc(x, y, size, 0, 2 * Math.PI);
    marker.fillStyle = fill;
    marker.fill();
  }
}

/** Lines from a node to its neighbours: of a hub's many a sample, lightly, and those to the nodes near to it clearly. */
function spokes(i, others, close) {
  const step = Math.max(1, others.length / SPOKES);
  const some = Array.from({ length: Math.min(others.length, SPOKES) }, (_, at) => others[Math.floor(at * step)]);
  lines(i, some.filter((other) => !close.has(other)), Math.max(0.1, Math.min(0.5, 2 / Math.sqrt(others.length))));
  lines(i, others.filter((other) => close.has(other)), 0.5);
  marker.globalAlpha = 1;
}

function lines(i, others, strength) {
  const [x, y] = toScreen(i);
  marker.strokeStyle = ink.ink;
  marker.lineWidth = 1.1;
  marker.globalAlpha = strength;
  marker.beginPath();
  for (const other of others) {
    marker.moveTo(x, y);
    marker.lineTo(...toScreen(other));
  }
  marker.stroke();
}

const overlap = (a, b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];

/** Names beside nodes, the first ones first, none over a node, another name or the key; that of the chosen one in any case. */
function labels(nodes, r) {
  const taken = nodes.map(([i]) => toScreen(i)).map(([x, y]) => [x - r, y - r, x + r, y + r]);
  const key = element("key");
  if (!key.hidden) taken.push([key.offsetLeft, key.offsetTop, key.offsetLeft + key.offsetWidth, key.offsetTop + key.offsetHeight]);
  marker.textBaseline = "middle";
  marker.lineJoin = "round";
  for (const [i, strong] of nodes) {
    const [x, y] = toScreen(i);
    marker.font = `${strong ? 600 : 400} ${strong ? 13 : 12}px system-ui, sans-serif`;
    const text = shorten(label(i), LABEL);
    const width = marker.measureText(text).width;
    const last = view.width - width - 4;
    const beside = [x + r + 7, x - r - 7 - width].filter((left) => left >= 4 && left <= last).map((left) => [left, y]);
    const below = [Math.max(Math.min(x - width / 2, last), 4), y + r + 11];
    const boxOf = ([left, middle]) => [left - 2, middle - 8, left + width + 2, middle + 8];
    const free = (at) => !taken.some((other) => overlap(boxOf(at), other));
    const at = [...beside, below].find(free) ?? (strong && below);
    if (!at) continue;
    taken.push(boxOf(at));
    marker.lineWidth = 4;
    marker.strokeStyle = ink.card;
    marker.strokeText(text, ...at);
    marker.fillStyle = strong ? ink.ink : ink.soft;
    marker.fillText(text, ...at);
  }
}

/** The chosen node with lines to those it is linked to and rings about those near to it. */
function surroundings(chosen, close, r) {
  const linked = linksOf(chosen);
  const also = new Set(linked);
  const small = linked.length > 300 ? 1.4 : Math.min(Math.max(r * 0.55, 2), 3.5);
  for (const i of linked) if (!close.has(i) && i !== chosen) disc(i, small, ink.ink);
  for (const i of close) {
    ring(i, r + 4, also.has(i) ? 2.4 : 1.6, also.has(i) ? ink.accent : ink.ink);
    if (also.has(i)) disc(i, Math.max(small, 2), ink.accent);
  }
  ring(chosen, r + 5.5, 3, ink.ink);
  disc(chosen, r + 1, colourOf(chosen));
}

function mark(ratio) {
  marker.setTransform(ratio, 0, 0, ratio, 0, 0);
  marker.clearRect(0, 0, view.width, view.height);
  const r = radius();
  const chosen = state.selected;
  const others = n > 1 ? inView(FEW).filter((i) => i !== chosen) : [];
  const close = new Set(chosen < 0 ? [] : nearOf(chosen).filter((i) => i >= 0));
  if (chosen >= 0) spokes(chosen, linksOf(chosen), close);
  labels([...(chosen < 0 ? [] : [[chosen, true]]), ...others.map((i) => [i, false])], r + (chosen < 0 ? 0 : 4));
  if (chosen >= 0) surroundings(chosen, close, r);
  if (state.hover >= 0 && state.hover !== chosen) ring(state.hover, r + 2.5, 2, ink.ink);
}
