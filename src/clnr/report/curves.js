const BOX = { width: 320, height: 168, left: 46, right: 10, top: 10, bottom: 30 };

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Round numbers from low to high, `about` of them. */
function ticks(low, high, about, least) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, power * [1, 2, 5, 10].find((times) => times * power >= rough * 0.999));
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/** Of many values the least and the most of each stretch, so that no peak is lost. */
function thinned(values) {
  const stretch = Math.max(1, Math.ceil(values.length / 600));
  const kept = [];
  for (let begin = 0; begin < values.length; begin += stretch) {
    const there = [];
    for (let i = begin; i < Math.min(begin + stretch, values.length); i++) if (values[i] !== null) there.push(i);
    if (!there.length) {
      kept.push(begin);
      continue;
    }
    const low = there.reduce((a, b) => (values[b] < values[a] ? b : a));
    const high = there.reduce((a, b) => (values[b] > values[a] ? b : a));
    kept.push(...new Set([Math.min(low, high), Math.max(low, high)]));
  }
  return kept;
}

function chart({ name, values }) {
  const there = values.filter((value) => value !== null);
  const card = make("section", "card curve", make("h2", "", bdi(name)));
  if (!there.length) {
    card.append(make("p", "note", "No values."));
    return card;
  }
  let [low, high] = [Infinity, -Infinity];
  for (const value of there) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  [low, high] = [low - room, high + room];
  const last = Math.max(values.length, 2);
  const across = (i) => BOX.left + (i / (last - 1)) * (BOX.width - BOX.left - BOX.right);
  const up = (value) => BOX.height - BOX.bottom - ((value - low) / (high - low)) * (BOX.height - BOX.top - BOX.bottom);
  const floor = BOX.height - BOX.bottom;
  const picture = svg("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", class: "chart" });
  picture.setAttribute("aria-label", `${name}: ${number(there[0])} at first, ${number(there.at(-1))} at last, over ${counted(values.length)} epoch${values.length === 1 ? "" : "s"}`);
  for (const value of ticks(low, high, 4, 0)) {
    picture.append(svg("line", { class: "rule", x1: BOX.left, x2: BOX.width - BOX.right, y1: up(value), y2: up(value) }));
    picture.append(svg("text", { class: "tick", x: BOX.left - 6, y: up(value) + 3.5, "text-anchor": "end" }, number(value)));
  }
  for (const epoch of ticks(1, last, 4, 1)) {
    const anchor = across(epoch - 1) > BOX.width - 30 ? "end" : "middle";
    picture.append(svg("text", { class: "tick", x: across(epoch - 1), y: floor + 14, "text-anchor": anchor }, counted(epoch)));
  }
  picture.append(svg("line", { class: "axis", x1: BOX.left, x2: BOX.width - BOX.right, y1: floor, y2: floor }));
  picture.append(svg("text", { class: "tick", x: (BOX.left + BOX.width) / 2, y: BOX.height - 3, "text-anchor": "middle" }, "epoch"));
  let path = "";
  let pen = "M";
  for (const i of thinned(values)) {
    if (values[i] === null) pen = "M";
    else {
      path += `${pen}${across(i).toFixed(1)} ${up(values[i]).toFixed(1)}`;
      pen = "L";
    }
  }
  picture.append(svg("path", { class: "line", d: path }));
  const dot = svg("circle", { class: "spot", r: 3.5 });
  const read = make("span", "aside");
  const point = (i) => {
    dot.setAttribute("cx", across(i));
    dot.setAttribute("cy", up(values[i]));
    read.textContent = `${number(values[i])} at epoch ${counted(i + 1)}`;
  };
  const end = values.findLastIndex((value) => value !== null);
  point(end);
  picture.append(dot);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const at = (((event.clientX - box.left) / box.width) * BOX.width - BOX.left) / (BOX.width - BOX.left - BOX.right);
    const i = Math.round(Math.min(Math.max(at, 0), 1) * (last - 1));
    if (values[i] !== null && i < values.length) point(i);
  });
  picture.addEventListener("pointerleave", () => point(end));
  card.firstChild.append(read);
  card.append(picture);
  return card;
}
