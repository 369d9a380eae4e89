const SHOWN = 50;
const HUBS = 8;
const LONG = 40;
const WORD = 16;
const SYLLABLES = /\p{Lu}*[^\p{Lu}_.,;:/@&?=-]*[_.,;:/@&?=-]*/gu;

/** An element with a class and children; text is text, whatever it says. */
function make(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function bdi(text) {
  const made = make("bdi", "", text);
  made.dir = "auto";
  return made;
}

/** Text that may go on in a new line where one of its words ends: after a sign, and in camelCase. */
function wrapped(text) {
  const made = bdi("");
  for (const word of text.split(/(\s+)/u))
    if (word.length < WORD) made.append(word);
    else for (const part of word.match(SYLLABLES)) made.append(part, make("wbr", ""));
  return made;
}

/** Whether a text needs a line of its own: it is long, or one of its words is. */
const isLong = (text) => text.length > LONG || (text.match(/[\p{L}\d]+/gu) ?? []).some((word) => word.length > WORD);

/** A node's name, if it has one, and its id. */
function called(i, most = Infinity) {
  const id = bdi(shorten(idOf(i), most));
  if (!names[i]) return make("span", "called", id);
  id.className = "id";
  return make("span", "called", bdi(shorten(names[i], most)), " ", id);
}

function swatch(colour) {
  const made = make("span", "swatch");
  made.style.background = colour;
  return made;
}

/** A button that goes on to a node. */
function way(i, ...more) {
  const button = make("button", names[i] ? "node named" : "node", swatch(colourOf(i)), called(i), ...more);
  button.type = "button";
  button.title = names[i] ? `${names[i]} (${idOf(i)})` : idOf(i);
  button.dataset.node = i;
  button.addEventListener("click", () => choose(i, true));
  for (const [event, hover] of [["pointerenter", i], ["pointerleave", -1]])
    button.addEventListener(event, () => {
      state.hover = hover;
      refresh();
    });
  return make("li", "", button);
}

const hint = (key, text) => make("li", "", make("kbd", "", key), make("span", "", text));

/** The nodes with the most neighbours, to begin with. */
const hubs = (() => {
  const degree = (i) => start[i + 1] - start[i];
  let least = 1;
  let kept = [];
  for (let i = 0; i < n; i++) {
    if (degree(i) < least) continue;
    kept.push(i);
    if (kept.length < 10 * HUBS) continue;
    kept = kept.sort((a, b) => degree(b) - degree(a) || a - b).slice(0, HUBS);
    least = degree(kept.at(-1)) + 1;
  }
  return kept.sort((a, b) => degree(b) - degree(a) || a - b).slice(0, HUBS);
})();

function welcome() {
  const touch = window.matchMedia("(hover: none)").matches;
  const hints = touch
    ? [["tap", "a node to see its neighbours"], ["drag", "to move"], ["pinch", "to zoom"]]
    : [["click", "a node to see its neighbours"], ["drag", "to move"], ["wheel", "to zoom"], ["/", "to find a node"], ["esc", "to clear the selection and filter"]];
  const begin = hubs.map((i) => way(i, make("span", "cosine", counted(start[i + 1] - start[i]))));
  const most = begin.length ? [heading("Most neighbours", "in the graph"), make("ul", "nodes", ...begin)] : [];
  return [
    make("h2", "", "A node and its neighbours"),
    make("p", "lead", "Each point is a node. Nodes with similar embeddings tend to lie together."),
    make("ul", "hints", ...hints.map(([key, text]) => hint(key, text))),
    ...most,
  ];
}

function valuesOf(i) {
  const rows = columns.map((column) => {
    const name = make("th", "", wrapped(column.name));
    name.scope = "row";
    const text = shown(column, i);
    const long = isLong(text) || isLong(column.name) ? "long" : "";
    const value = make("td", missing(column, i) ? "missing" : long, wrapped(text));
    if (column === paint.column) value.prepend(swatch(colourOf(i)));
    return make("tr", "", name, value);
  });
  return make("table", "", ...rows);
}

function nearList(i, linked) {
  const list = make("ol", "nodes");
  list.id = "nearest";
  nearOf(i).forEach((other, place) => {
    if (other < 0) return;
    const cosine = closeness[i * nearCount + place];
    const bar = make("span", "bar", make("span", ""));
    bar.firstChild.style.width = `${100 * Math.min(Math.max(cosine || 0, 0), 1)}%`;
    const also = linked.has(other) ? [make("span", "also", "linked")] : [];
    list.append(way(other, ...also, bar, make("span", "cosine", Number.isNaN(cosine) ? "–" : cosine.toFixed(3))));
  });
  return list;
}

function linkList(linked, close) {
  const list = make("ul", "nodes");
  list.id = "neighbours";
  for (const other of linked.subarray(0, SHOWN)) list.append(way(other, ...(close.has(other) ? [make("span", "also", "near")] : [])));
  return list;
}

function details(i) {
  const linked = linksOf(i);
  const close = nearOf(i).filter((other) => other >= 0);
  const [asLinked, asClose] = [new Set(linked), new Set(close)];
  const shared = close.filter((other) => asLinked.has(other)).length;
  const shut = make("button", "shut", "×");
  shut.type = "button";
  shut.title = "Let go (Esc)";
  shut.setAttribute("aria-label", "Let go of the node");
  shut.addEventListener("click", letGo);
  const title = make("h2", "name", wrapped(label(i)));
  title.id = "chosen";
  const heads = names[i] ? [title, make("p", "note", "id ", bdi(idOf(i)))] : [title];
  const parts = [make("div", "top", make("div", "heads", ...heads), shut)];
  if (columns.length) parts.push(valuesOf(i));
  parts.push(heading("Nearest in the embedding", "cosine"));
  if (close.length) {
    parts.push(nearList(i, asLinked));
    parts.push(make("p", "note", `${counted(shared)} of these ${counted(close.length)} ${shared === 1 ? "is" : "are"} also linked in the graph.`));
  } else parts.push(make("p", "note", "None."));
  parts.push(heading("Neighbours in the graph", `${counted(linked.length)} on the map`));
  if (linked.length) parts.push(linkList(linked, asClose));
  else parts.push(make("p", "note", "None on the map."));
  if (linked.length > SPOKES) parts.push(make("p", "note", `Lines lead to ${SPOKES} of them, and to those near in the embedding.`));
  if (linked.length > SHOWN) parts.push(make("p", "note", `The first ${SHOWN} of ${counted(linked.length)} are shown.`));
  return parts;
}

const heading = (text, aside) => make("h3", "", make("span", "", text), make("span", "aside", aside));

function showPanel() {
  const panel = element("panel");
  const focused = panel.contains(document.activeElement);
  panel.replaceChildren(...(state.selected >= 0 ? details(state.selected) : welcome()));
  panel.classList.toggle("filled", state.selected >= 0);
  panel.scrollTop = 0;
  if (focused) panel.focus({ preventScroll: true });
  element("key").hidden = state.selected < 0;
}

/** What the colours mean; a kind can be clicked to see it alone, and from as close by as all of it can be seen. */
function showLegend() {
  const legend = element("legend");
  const column = paint.column;
  legend.hidden = column === null;
  if (column === null) return legend.replaceChildren();
  if (column.number) return legend.replaceChildren(...gradient());
  const kinds = paint.kinds.map((kind, i) => {
    const button = make("button", "kind", swatch(kind.colour), bdi(kind.name), make("span", "count", counted(kind.count)));
    button.type = "button";
    button.title = kind.name;
    button.setAttribute("aria-pressed", paint.focus.has(i));
    button.classList.toggle("faded", !inFocus(i));
    button.addEventListener("click", () => {
      paint.focus.delete(i) || paint.focus.add(i);
      if (paint.focus.size === paint.kinds.length) paint.focus.clear();
      recolour();
      fit();
      legend.children[i].focus();
    });
    return button;
  });
  return legend.replaceChildren(...kinds);
}

function gradient() {
  const lacking = paint.lacking ? [make("span", "kind", swatch(MISSING[scheme()]), "missing", make("span", "count", counted(paint.lacking)))] : [];
  if (paint.empty) return lacking;
  const bar = make("span", "scale");
  bar.style.background = `linear-gradient(to right, ${paint.kinds.slice(0, STEPS).map((kind) => kind.colour).join(", ")})`;
  const low = make("span", "end", (paint.under ? "≤ " : "") + number(paint.low));
  const high = make("span", "end", (paint.over ? "≥ " : "") + number(paint.high));
  return [make("span", "ends", low, bar, high), ...lacking];
}
