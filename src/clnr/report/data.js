const element = (id) => document.getElementById(id);

function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

/** The array that an element holds; the text is let go of. */
function unpack(id, Kind) {
  const holder = element(id);
  const found = new Kind(bytes(holder.textContent).buffer);
  holder.remove();
  return found;
}

const words = JSON.parse(element("words").textContent);
element("words").remove();

const ids = words.ids;
const names = words.names;
const n = ids.length;
const columns = words.columns.map((column, i) => ({
  ...column,
  values: unpack(`column-${i}`, column.number ? Float32Array : Int32Array),
}));
const near = unpack("near", Int32Array);
const closeness = unpack("closeness", Float32Array);
const start = unpack("start", Uint32Array);
const links = unpack("links", Int32Array);
const nearCount = n ? near.length / n : 0;

/** Points about 0, the longer side from -1 to 1, whatever their units; half the sides as well. */
const world = (() => {
  const points = unpack("points", Float32Array);
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (let i = 0; i < points.length; i++) {
    low[i % 2] = Math.min(low[i % 2], points[i]);
    high[i % 2] = Math.max(high[i % 2], points[i]);
  }
  const half = n ? Math.max(high[0] - low[0], high[1] - low[1]) / 2 || 1 : 1;
  for (let i = 0; i < points.length; i++) points[i] = (points[i] - (low[i % 2] + high[i % 2]) / 2) / half;
  const sides = [0, 1].map((axis) => (n ? (high[axis] - low[axis]) / 2 / half : 0));
  return { points, sides };
})();

const idOf = (i) => ids[i] || "(empty)";
const label = (i) => names[i] || idOf(i);

/** At most ``most`` characters, none cut in half. */
function shorten(text, most) {
  if (text.length <= most) return text;
  const letters = Array.from(text.slice(0, 2 * most + 2));
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
}

const nearOf = (i) => near.subarray(i * nearCount, (i + 1) * nearCount);
const linksOf = (i) => links.subarray(start[i], start[i + 1]);
const counted = (count) => count.toLocaleString("en");

function number(value) {
  const size = Math.abs(value);
  if (Number.isNaN(value)) return "missing";
  if (size === Infinity) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && size < 1e9) return size < 1e4 ? String(value) : counted(value);
  if (size >= 1e9 || size < 1e-3) return value.toExponential(2);
  return value.toLocaleString("en", size < 1e4 ? { maximumSignificantDigits: 4, useGrouping: false } : { maximumFractionDigits: 1 });
}

function shown(column, i) {
  const value = column.values[i];
  if (column.number) return number(value);
  return value < 0 ? "missing" : column.names[value] || "(empty)";
}

const missing = (column, i) => (column.number ? Number.isNaN(column.values[i]) : column.values[i] < 0);
