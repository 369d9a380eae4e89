const MATCHES = 12;
let lowered = null;
let active = 0;

/** Nodes whose id has the text in it, whatever its case: the very id first, then beginnings, then the rest. */
function search(text) {
  lowered ??= ids.map((id) => id.toLowerCase());
  const wanted = text.trim().toLowerCase();
  const ranks = [[], [], [], []];
  let total = 0;
  if (wanted)
    for (let i = 0; i < n; i++) {
      const at = lowered[i].indexOf(wanted);
      if (at < 0) continue;
      total++;
      const rank = at > 0 ? 3 : lowered[i].length > wanted.length ? 2 : ids[i] === text.trim() ? 0 : 1;
      if (ranks[rank].length < MATCHES) ranks[rank].push(i);
    }
  return { nodes: ranks.flat().slice(0, MATCHES), total };
}

function showMatches() {
  const query = element("query");
  const { nodes, total } = search(query.value);
  active = 0;
  const options = nodes.map((i, place) => {
    const option = make("li", "", swatch(colourOf(i)), bdi(label(i)));
    option.id = `match-${place}`;
    option.dataset.node = i;
    option.setAttribute("role", "option");
    option.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      found(i);
    });
    return option;
  });
  element("matches").replaceChildren(...options);
  const more = total > nodes.length ? `${counted(total)} nodes have this in their id` : "";
  element("count").textContent = total ? more : "No node has this in its id";
  open(query.value.trim() !== "");
  activate(0);
}

function open(is) {
  element("found").hidden = !is;
  element("query").setAttribute("aria-expanded", is);
}

function activate(place) {
  const options = element("matches").children;
  active = options.length ? (place + options.length) % options.length : 0;
  Array.from(options).forEach((option, i) => option.setAttribute("aria-selected", i === active));
  if (options.length) element("query").setAttribute("aria-activedescendant", `match-${active}`);
  else element("query").removeAttribute("aria-activedescendant");
}

function found(i) {
  open(false);
  element("query").value = ids[i];
  choose(i, true);
}

function searching() {
  const query = element("query");
  query.addEventListener("input", showMatches);
  query.addEventListener("focus", () => query.value.trim() && showMatches());
  query.addEventListener("blur", () => open(false));
  query.addEventListener("keydown", (event) => {
    const chosen = element("matches").children[active];
    if (event.key === "Enter" && chosen && !element("found").hidden) found(Number(chosen.dataset.node));
    else if (event.key === "ArrowDown") activate(active + 1);
    else if (event.key === "ArrowUp") activate(active - 1);
    else if (event.key === "Escape") {
      query.value = "";
      query.blur();
    } else return;
    event.preventDefault();
  });
}
