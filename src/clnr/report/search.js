const MATCHES = 12;
let lowered = null;
let active = 0;

const sought = names.length ? [names, ids] : [ids];
const by = names.length ? "name or id" : "id";

/** How well node i fits in one of the lists: 0 the very text, 1 but for its case, 2 a beginning, 3 any part, 4 not at all. */
function rankIn(list, i, text, wanted) {
  const at = lowered[list][i].indexOf(wanted);
  if (at !== 0) return at < 0 ? 4 : 3;
  return lowered[list][i].length > wanted.length ? 2 : sought[list][i] === text ? 0 : 1;
}

/** Nodes whose name or id has the text in it, whatever its case, those that fit best first. */
function search(given) {
  lowered ??= sought.map((list) => list.map((each) => each.toLowerCase()));
  const text = given.trim();
  const wanted = text.toLowerCase();
  const ranks = [[], [], [], []];
  let total = 0;
  if (wanted)
    for (let i = 0; i < n; i++) {
      let rank = 4;
      for (let list = 0; list < sought.length; list++) rank = Math.min(rank, rankIn(list, i, text, wanted));
      if (rank === 4) continue;
      total++;
      if (ranks[rank].length < MATCHES) ranks[rank].push(i);
    }
  return { nodes: ranks.flat().slice(0, MATCHES), total };
}

function showMatches() {
  const query = element("query");
  const { nodes, total } = search(query.value);
  active = 0;
  const options = nodes.map((i, place) => {
    const option = make("li", "", swatch(colourOf(i)), called(i));
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
  const more = total > nodes.length ? `${counted(total)} nodes have this in their ${by}` : "";
  element("count").textContent = total ? more : `No node has this in its ${by}`;
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
  element("query").value = names[i] || ids[i];
  choose(i, true);
}

function searching() {
  const query = element("query");
  query.placeholder = `Find a node by its ${by}`;
  query.setAttribute("aria-label", query.placeholder);
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
