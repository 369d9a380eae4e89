// After Okabe and Ito, then Tol: each has a contrast of 3 with the card, which WCAG 2.1 asks of what is not text.
const PALETTES = {
  light: ["#00609e", "#c48600", "#009e73", "#cc79a7", "#3a9ad0", "#d55e00", "#332288", "#8c9600", "#882255", "#2a9da2", "#4d6b1f", "#7a4b2a"],
  dark: ["#3d9be0", "#f0a91c", "#14b88a", "#e08fbd", "#8fd0f7", "#f0743a", "#8f82ea", "#f0e442", "#c9517f", "#6fd6c4", "#b5b54a", "#bd8a63"],
};
const OTHER = { light: "#9a83a6", dark: "#8d7a98" };
const MISSING = { light: "#c3c8d0", dark: "#464d59" };
const PLAIN = { light: "#0072b2", dark: "#3d9be0" };
const VIRIDIS = ["#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725"];
// The part of the scale that stands out from the background.
const ENDS = { light: [0, 0.93], dark: [0.17, 1] };
const STEPS = 64;

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const scheme = () => (dark.matches ? "dark" : "light");

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const hexed = (rgb) => `#${rgb.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;

/** The scale's colour at a place from 0 to 1. */
function viridis(at) {
  const [low, high] = ENDS[scheme()];
  const place = (low + at * (high - low)) * (VIRIDIS.length - 1);
  const below = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const [a, b] = [channels(VIRIDIS[below]), channels(VIRIDIS[below + 1])];
  return hexed(a.map((part, i) => part + (place - below) * (b[i] - part)));
}

/** A column's kinds: each with its name, colour and how many nodes have it; and which kind a node is of. */
function categories(column) {
  const palette = PALETTES[scheme()];
  const counts = new Uint32Array(column.names.length);
  let lacking = 0;
  for (const code of column.values) code < 0 ? lacking++ : counts[code]++;
  let there = Array.from(counts.keys()).filter((code) => counts[code]);
  const rest = there.length > palette.length;
  if (rest) there = there.sort((a, b) => counts[b] - counts[a] || a - b).slice(0, palette.length - 1);
  const kinds = there.map((code, i) => ({ name: column.names[code] || "(empty)", colour: palette[i], count: counts[code] }));
  const place = new Int32Array(column.names.length).fill(-1);
  there.forEach((code, i) => (place[code] = i));
  let other = -1;
  if (rest) {
    const count = kinds.reduce((left, kind) => left - kind.count, n - lacking);
    const many = counts.filter((each) => each).length - there.length;
    other = kinds.push({ name: `other (${counted(many)} more)`, colour: OTHER[scheme()], count }) - 1;
  }
  const none = lacking ? kinds.push({ name: "missing", colour: MISSING[scheme()], count: lacking }) - 1 : -1;
  const of = (i) => {
    const code = column.values[i];
    if (code < 0) return none;
    return place[code] < 0 ? other : place[code];
  };
  return { kinds, of };
}

/** A column's scale: its ends, and which step a node is on; far outliers share the colour of an end. */
function scaled(column) {
  const there = column.values.filter((value) => !Number.isNaN(value)).sort();
  const lacking = n - there.length;
  const quantile = (q) => there[Math.round(q * (there.length - 1))];
  let [low, high] = [quantile(0), quantile(1)];
  let [under, over] = [false, false];
  const [inner, outer] = [quantile(0.01), quantile(0.99)];
  if (outer > inner && !(high - low < 4 * (outer - inner))) {
    under = low < inner - (outer - inner);
    over = high > outer + (outer - inner);
    if (under) low = inner;
    if (over) high = outer;
  }
  const kinds = Array.from({ length: STEPS }, (_, i) => ({ colour: viridis(i / (STEPS - 1)) }));
  kinds.push({ name: "missing", colour: MISSING[scheme()], count: lacking });
  const width = high - low;
  const of = (i) => {
    const value = column.values[i];
    if (Number.isNaN(value)) return STEPS;
    const at = width > 0 ? (value - low) / width : 0.5;
    return Math.round(Math.min(Math.max(at, 0), 1) * (STEPS - 1));
  };
  return { kinds, of, low, high, under, over, lacking, empty: !there.length };
}

/** What the map is painted with: colours by kind, each node's kind, and which kinds are in focus (all, if none). */
const paint = { column: null, kinds: [], of: () => 0, kind: new Uint8Array(n), focus: new Set() };

function repaint(column) {
  if (column !== paint.column) paint.focus.clear();
  const made = column === null ? { kinds: [{ colour: PLAIN[scheme()] }], of: () => 0 } : column.number ? scaled(column) : categories(column);
  Object.assign(paint, { low: undefined, high: undefined, ...made, column });
  for (let i = 0; i < n; i++) paint.kind[i] = paint.of(i);
}

const inFocus = (kind) => !paint.focus.size || paint.focus.has(kind);
const colourOf = (i) => paint.kinds[paint.kind[i]].colour;
