const map = element("map");
const frames = [];
let waiting = 0;
let repainting = true;

/** Draw once before the next frame is shown. */
function refresh() {
  if (!waiting) waiting = requestAnimationFrame(frame);
}

function frame(now) {
  cancelAnimationFrame(waiting);
  waiting = 0;
  const began = performance.now();
  const on = flown(now);
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  if (repainting) renderer.colour();
  repainting = false;
  renderer.draw(ratio, ink.card);
  mark(ratio);
  frames.push(performance.now() - began);
  if (frames.length > 600) frames.shift();
  if (on) refresh();
}

function measure() {
  const { clientWidth: width, clientHeight: height } = map;
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  for (const canvas of map.querySelectorAll("canvas")) {
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
  }
  resize(Math.max(width, 1), Math.max(height, 1));
  // Sizes change after the turn to draw and before the picture is shown: at once, or it would be empty.
  frame(performance.now());
}

/** Colour anew: after another column, another focus, or from light to dark. */
function recolour(column = paint.column) {
  repaint(column);
  repainting = true;
  showLegend();
  showPanel();
  refresh();
}

/** Select a node, or none; go to it where it was not clicked on the map itself. */
function choose(i, go = false) {
  const same = i === state.selected;
  state.selected = i;
  state.hover = -1;
  if (!same) showPanel();
  if (go) {
    fly(world.points[2 * i], world.points[2 * i + 1], closeup(i));
    element("query").blur();
    map.scrollIntoView({ block: "nearest", behavior: still.matches ? "auto" : "smooth" });
  }
  refresh();
}

function whole() {
  fly(0, 0, fitting());
  refresh();
}

/** Bring the nodes of the chosen kinds into view; all nodes, if no kind is chosen. */
function fit() {
  fly(...(paint.focus.size ? around((i) => inFocus(paint.kind[i])) : [0, 0, fitting()]));
  refresh();
}

/** Let go of the node, or of the kinds if there is none, and bring what is left into view. */
function letGo() {
  if (state.selected < 0 && paint.focus.size) {
    paint.focus.clear();
    recolour();
  }
  choose(-1);
  fit();
}

function zoom(factor, x = view.width / 2, y = view.height / 2) {
  flight = null;
  zoomAt(x, y, factor);
  refresh();
}

function move(dx, dy) {
  flight = null;
  look(view.x - dx / view.k, view.y + dy / view.k, view.k);
  refresh();
}

function place(event) {
  const box = map.getBoundingClientRect();
  return [event.clientX - box.left - map.clientLeft, event.clientY - box.top - map.clientTop];
}

const reach = (event) => Math.max(radius() + 4, event.pointerType === "touch" ? 18 : 9);

function tip(i, x, y) {
  const box = element("tip");
  box.hidden = i < 0;
  if (i < 0) return;
  box.firstChild.replaceChildren(called(i, 80));
  box.lastChild.textContent = paint.column ? shorten(shown(paint.column, i), 80) : "";
  const left = Math.min(Math.max(x - box.offsetWidth / 2, 6), Math.max(6, view.width - box.offsetWidth - 6));
  const above = y - box.offsetHeight - 16;
  box.style.transform = `translate(${left}px, ${above < 6 ? y + 20 : above}px)`;
}

function pointTo(i, x, y) {
  tip(i, x, y);
  map.classList.toggle("over", i >= 0);
  if (i === state.hover) return;
  state.hover = i;
  refresh();
}

/** Drag with one pointer, pinch with two, click where nothing moved. */
function pointing() {
  const held = new Map();
  let travelled = 0;
  map.addEventListener("pointerdown", (event) => {
    if (event.target.closest("#zoom") || event.button > 0) return;
    map.setPointerCapture(event.pointerId);
    if (!held.size) travelled = 0;
    held.set(event.pointerId, place(event));
    pointTo(-1);
  });
  map.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    const before = held.get(event.pointerId);
    if (!before) return event.target.closest("#zoom") ? pointTo(-1) : pointTo(pick(x, y, reach(event)), x, y);
    travelled += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (held.size === 1 && travelled > 4) {
      map.classList.add("dragged");
      move(x - before[0], y - before[1]);
    } else if (held.size === 2) {
      const other = [...held].find(([id]) => id !== event.pointerId)[1];
      const [was, is] = [before, [x, y]].map((at) => Math.hypot(at[0] - other[0], at[1] - other[1]));
      move((x - before[0]) / 2, (y - before[1]) / 2);
      zoom(is / Math.max(was, 1), (x + other[0]) / 2, (y + other[1]) / 2);
    }
    held.set(event.pointerId, [x, y]);
  });
  map.addEventListener("pointerup", (event) => {
    if (held.delete(event.pointerId) && !held.size && travelled <= 4) choose(pick(...place(event), reach(event)));
    if (!held.size) map.classList.remove("dragged");
  });
  map.addEventListener("pointercancel", (event) => held.delete(event.pointerId));
  map.addEventListener("pointerleave", () => pointTo(-1));
  map.addEventListener("dblclick", (event) => event.target.closest("#zoom") || zoom(2, ...place(event)));
  const wheel = (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? 400 : 1;
    const far = Math.min(Math.max(event.deltaY * lines, -300), 300);
    zoom(Math.exp(-far * (event.ctrlKey ? 0.01 : 0.0022)), ...place(event));
  };
  map.addEventListener("wheel", wheel, { passive: false });
}

function keys() {
  const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return letGo();
    if (event.target.closest("input, select")) return;
    if (event.key === "/") {
      element("query").focus();
      element("query").select();
    }
    else if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") whole();
    else if (event.target === map && steps[event.key]) move(...steps[event.key]);
    else return;
    event.preventDefault();
  });
}

const CATEGORIES = 50;

function colouring() {
  const select = element("colour");
  columns.forEach((column, i) => {
    // Of free text nearly all nodes would be "other"; what the report opens with was asked for.
    if (!i || column.number || column.names.length <= CATEGORIES) select.append(new Option(shorten(column.name, 60), i));
  });
  select.append(new Option("nothing", -1));
  element("colouring").hidden = !columns.length;
  select.addEventListener("change", () => recolour(columns[select.value] ?? null));
}

searching();
pointing();
keys();
colouring();
element("nothing").hidden = n > 0;
element("closer").addEventListener("click", () => zoom(1.5));
element("farther").addEventListener("click", () => zoom(1 / 1.5));
element("home").addEventListener("click", whole);
element("curves").append(...words.curves.map(chart));
dark.addEventListener("change", () => {
  ink = inks();
  recolour();
});
recolour(columns[0] ?? null);
measure();
look(0, 0, fitting());
new ResizeObserver(measure).observe(map);

window.clnr = {
  renderer: renderer.name,
  frames,
  count: n,
  view: () => ({ ...view }),
  moving: () => flight !== null || waiting !== 0,
  selected: () => state.selected,
  hover: () => state.hover,
  colour: colourOf,
  pick: (x, y) => pick(x, y, 9),
  screen: (i) => {
    const box = map.getBoundingClientRect();
    const [x, y] = toScreen(i);
    return [box.left + map.clientLeft + x, box.top + map.clientTop + y];
  },
};
