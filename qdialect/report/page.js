// The page: its sections, from the data, and what is told about a chosen op.

/** A cell that chooses an op, by what it is known by. */
const opCell = (label, names) => ({ text: label, show: () => known(names)
  ? make("button", { type: "button", class: "link", onclick: () => choose(names, true) }, label)
  : make("span", {}, label) });
const known = (names) => shared.views.some((view) => names.some((name) => view.named.has(name)));

/** Mark an op on both sides and tell about it. */
function choose(names, move, from, node) {
  shared.chosen = names;
  for (const view of shared.views) {
    const found = names.flatMap((name) => view.named.get(name) || []);
    if (view !== from) {
      view.cursor = found[0];
      if (found.length) view.show(found[0]);
    }
    view.schedule();
  }
  detail(names, node);
  if (move) document.getElementById("graph").scrollIntoView({ behavior: "instant" });
}

const MOST = 24;
const list = (items) => make("ul", {}, ...items.slice(0, MOST).map((item) => make("li", {}, item)),
  items.length > MOST ? make("li", {}, `and ${items.length - MOST} more`) : null);

/** What a group has in it. */
function groupDetail(view, g) {
  const inside = view.nodes.slice(g.start, g.end);
  const kinds = new Map();
  for (const n of inside) kinds.set(n.name, (kinds.get(n.name) || 0) + 1);
  const sorted = [...kinds].sort((a, b) => b[1] - a[1]);
  document.getElementById("detail").replaceChildren(
    make("h3", {}, `${view.title}: ${g.title}`), make("p", { class: "mono" }, g.name),
    make("p", { class: "note" }, [...g.mix].map(([kind, count]) => `${count} ${kind}`).join(", ")),
    list(sorted.map(([name, count]) => `${count} × ${name}`)));
}

function detail(names, node) {
  const panel = document.getElementById("detail");
  const parts = [];
  for (const view of shared.views) {
    const found = new Set(names.flatMap((name) => view.named.get(name) || []));
    if (node && view.nodes.includes(node)) found.add(node);
    for (const n of found) {
      const facts = make("dl");
      const fact = (name, value) => value &&
        facts.append(make("dt", {}, name), make("dd", { class: "mono" }, value));
      const price = n.price == null ? "" : `price ${number(n.price)}`;
      const what = [n.label, n.category, price, n.location].filter(Boolean).join(" · ");
      fact("takes", n.operands.length ? list(n.operands) : "");
      fact("gives", n.results.length ? list(n.results) : "");
      fact("properties", n.attributes.length ? list(n.attributes.map(([k, v]) => `${k} = ${v}`)) : "");
      parts.push(make("h3", {}, `${view.title}: ${n.name}`), make("p", { class: "note" }, what), facts);
    }
  }
  const told = [...new Set(names.flatMap((name) => data.history[name] || []))].sort((a, b) => a - b);
  if (data.remarks) {
    parts.push(make("h3", {}, `History (${told.length})`));
    parts.push(told.length ? list(told.map((i) => {
      const r = remark(i);
      return r.kind === "fired"
        ? make("span", {}, make("b", {}, r.contract), ` ${r.pass}: ${r.rule}`)
        : make("span", {}, make("i", {}, r.kind), ` ${r.pass}: ${r.rule || r.code}: ${r.reason}`);
    })) : make("p", { class: "note" }, "No rewrite names this op."));
  }
  for (const h of data.histograms.filter((h) => h.names.some((name) => names.includes(name)))) {
    parts.push(make("h3", {}, `Values of ${h.key}`), make("div", {}, histogram(h, 260, 80)),
      make("p", { class: "note" }, `Data ${number(h.minimum)} to ${number(h.maximum)}; range ` +
        `${number(h.low)} to ${number(h.high)} of ${h.storage}; ${h.outside}.`));
  }
  const here = data.findings.filter((f) => f.names.some((name) => names.includes(name)));
  if (here.length) {
    parts.push(make("h3", {}, "Boundary"), list(here.map((f) =>
      `${f.side} ${f.code}: ${f.message}${f.fix ? `; fix: ${f.fix}` : ""}`)));
  }
  panel.replaceChildren(...parts);
  panel.scrollTop = 0;
}
const remark = (i) => {
  const [kind, pass, rule, place, op, key, contract, code, reason] = data.remarks[i].map((t) => T[t]);
  return { kind, pass, rule, place, op, key, contract, code, reason };
};

// -- summary -----------------------------------------------------------------------
document.getElementById("subtitle").textContent = data.subtitle;
{
  const body = section("summary", "Summary", data.summary.note);
  body.append(make("dl", { class: "tiles" }, ...data.summary.tiles.map(([name, value, note]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, note))))));
  table(body, "Ops", data.summary.columns.map((name, i) => ({ name, number: i > 0 })),
    data.summary.rows, false);
}

// -- graphs ------------------------------------------------------------------------
{
  const body = section("graph", "Graph",
    "Drag to move, wheel to zoom, click an op for its types and history; the same op is marked on " +
    "both sides. A box with ▸ is a group of ops: click it to open it, and its heading to close it.");
  const search = make("input", { type: "search", id: "search", placeholder: "name, op or type",
    "aria-label": "Search ops" });
  const found = make("span", { "aria-live": "polite" });
  let hits = [], turn = 0;
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    hits = [];
    for (const view of shared.views) {
      view.hits.clear();
      if (wanted) for (const n of view.nodes) {
        if (`${n.name} ${n.label} ${n.category} ${n.names.join(" ")} ${n.results.join(" ")}`
          .toLowerCase().includes(wanted)) {
          view.hits.add(n.index);
          hits.push([view, n]);
        }
      }
      view.countHits();
      view.schedule();
    }
    turn = -1;
    found.textContent = wanted ? `${hits.length} found` : "";
  };
  const step = (by) => {
    if (!hits.length) return;
    turn = (turn + by + hits.length) % hits.length;
    const [view, n] = hits[turn];
    view.show(n);
    view.pick(n);
    found.textContent = `${turn + 1} of ${hits.length}, ${view.title}: ${n.name} ${n.label}`;
  };
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") step(event.shiftKey ? -1 : 1); });
  body.append(make("div", { class: "tools" }, search,
    make("button", { type: "button", onclick: () => step(-1) }, "Previous"),
    make("button", { type: "button", onclick: () => step(1) }, "Next"), found));
  body.append(make("ul", { class: "legend", "aria-label": "Colours" }, ...data.categories.map((category) =>
    make("li", {}, make("span", { class: `b-${category}` }), category))));
  const sides = make("div", { class: data.graphs.length > 1 ? "sides" : "sides one" });
  body.append(sides);
  for (const graph of data.graphs) graphView(graph.title, graph, sides, { choose, group: groupDetail });
  sides.append(make("aside", { id: "detail", "aria-live": "polite", "aria-label": "The chosen op", tabindex: "0" },
    make("p", { class: "note" }, "Click an op, or search for one.")));
}

// -- tables ------------------------------------------------------------------------
const showCell = {
  op: (cell) => cell[0] === "" ? "" : opCell(cell[0], cell[1]),
  histogram: (index) => ({ text: "", rank: 0, show: () => histogram(data.histograms[index], 200, 34) }),
  meter: (cell, most) => typeof cell === "string"
    ? { text: cell, rank: -Infinity, show: () => make("span", {}, cell) }
    : ({ text: number(cell), rank: cell ?? Infinity, show: () => cell == null
    ? make("span", {}, "exact")
    : make("span", {}, make("span", { class: "meter", style: `width:${Math.max(0, 80 * cell / most)}px` }), cell.toFixed(1)) }),
};
for (const part of data.tables) {
  const body = section(part.id, part.title, part.note);
  if (part.problem) body.append(make("p", { class: "problem" }, part.problem));
  if (!part.rows.length) { body.append(make("p", {}, part.empty)); continue; }
  if (part.plot) body.append(frontPlot(part.plot, 560, 300));
  const most = part.columns.map(([, kind], i) => kind === "meter"
    ? part.rows.reduce((found, row) => Math.max(found, Number(row[i]) || 0), 1e-9) : 1);
  table(body, part.caption,
    part.columns.map(([name, kind]) => ({ name, number: kind === "number" || kind === "meter" })),
    part.rows.map((row) => row.map((cell, i) => {
      const kind = showCell[part.columns[i][1]];
      return kind ? kind(cell, most[i]) : cell;
    })));
}
document.documentElement.dataset.ready = String(Math.round(performance.now()));
