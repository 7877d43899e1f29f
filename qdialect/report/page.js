"use strict";
// The data is one JSON object; `text` numbers its strings. Drawing keeps only what is in view,
// so that a graph of thousands of ops stays quick: far out, one path per colour.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const T = data.text;
  const SVG = "http://www.w3.org/2000/svg";
  const W = 148, H = 40, DETAIL = 0.42;
  const main = document.getElementById("main");
  const sections = document.getElementById("sections");

  const make = (tag, props = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (name === "class") node.className = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.filter((c) => c != null));
    return node;
  };
  const draw = (tag, props = {}) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(props)) node.setAttribute(name, value);
    return node;
  };
  const number = (value) =>
    value == null ? "" : Math.abs(value) >= 1e4 ? Math.round(value).toLocaleString("en") :
      String(Number(value.toPrecision(4)));
  const section = (id, title, note) => {
    const body = make("section", { id, "aria-labelledby": `${id}-title` },
      make("h2", { id: `${id}-title` }, title));
    if (note) body.append(make("p", { class: "note" }, note));
    main.append(body);
    sections.append(make("a", { href: `#${id}` }, title));
    return body;
  };

  // -- theme -------------------------------------------------------------------
  const themes = ["auto", "light", "dark"];
  const themeNames = { auto: "as the system", light: "light", dark: "dark" };
  let theme = new URLSearchParams(location.search).get("theme") || "auto";
  const themeButton = document.getElementById("theme");
  const showTheme = () => {
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = theme;
    themeButton.textContent = `Theme: ${themeNames[theme] || theme}`;
  };
  themeButton.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    showTheme();
  });
  showTheme();

  // -- tables -------------------------------------------------------------------
  const PAGE = 100;
  function table(where, caption, columns, rows, filterable = rows.length > 12) {
    let shown = PAGE, order = null, down = false, wanted = "";
    const body = make("tbody");
    const status = make("p", { class: "note", "aria-live": "polite" });
    const more = make("button", { type: "button", onclick: () => { shown += 5 * PAGE; fill(); } },
      "Show more");
    const heads = columns.map((column, index) => make("th",
      { scope: "col", class: column.number ? "n" : "" },
      make("button", { type: "button", onclick: () => sort(index) }, column.name)));
    const plain = (cell) => cell == null ? "" : typeof cell === "object" ? cell.text : String(cell);
    const rank = (cell) => cell == null ? -Infinity : typeof cell === "object" ? cell.rank ?? cell.text : cell;
    function sort(index) {
      down = order === index ? !down : !!columns[index].number;
      order = index;
      heads.forEach((head, i) => i === index
        ? head.setAttribute("aria-sort", down ? "descending" : "ascending")
        : head.removeAttribute("aria-sort"));
      fill();
    }
    function fill() {
      let list = wanted
        ? rows.filter((row) => row.some((cell) => plain(cell).toLowerCase().includes(wanted)))
        : rows.slice();
      if (order !== null) {
        list.sort((a, b) => {
          const x = rank(a[order]), y = rank(b[order]);
          return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
        });
      }
      body.replaceChildren(...list.slice(0, shown).map((row) => make("tr", {},
        ...row.map((cell, index) => make("td", { class: columns[index].number ? "n" : "" },
          cell == null ? "" : typeof cell === "object" ? cell.show() :
            columns[index].number && typeof cell === "number" ? number(cell) : String(cell))))));
      more.hidden = list.length <= shown;
      status.textContent = list.length > 12 || wanted
        ? `${Math.min(shown, list.length)} of ${list.length} rows` : "";
    }
    if (filterable) {
      const box = make("input", { type: "search", "aria-label": `Filter: ${caption}`,
        placeholder: "filter",
        oninput: () => { wanted = box.value.trim().toLowerCase(); shown = PAGE; fill(); } });
      where.append(make("div", { class: "tools" }, box));
    }
    where.append(make("div", { class: "scroll" }, make("table", {}, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...heads)), body)), status, more);
    fill();
  }
  /** A cell that chooses an op, by what it is known by. */
  const opCell = (label, names) => ({ text: label, show: () => known(names)
    ? make("button", { type: "button", class: "link", onclick: () => choose(names, true) }, label)
    : make("span", {}, label) });
  const known = (names) => views.some((view) => names.some((name) => view.named.has(name)));

  // -- graphs -------------------------------------------------------------------
  const views = [];
  let chosen = [];

  function graphView(title, graph, where) {
    const nodes = graph.nodes.map((n, index) => ({ index, name: T[n[0]], label: T[n[1]],
      category: data.categories[n[2]], names: n[3].map((t) => T[t]), location: T[n[4]],
      operands: n[5].map((t) => T[t]), results: n[6].map((t) => T[t]),
      attributes: n[7].map(([k, v]) => [T[k], T[v]]), price: n[8], x: n[9], y: n[10] }));
    const edges = graph.edges;
    const named = new Map();
    for (const node of nodes) for (const name of node.names) {
      if (!named.has(name)) named.set(name, []);
      named.get(name).push(node);
    }
    const users = nodes.map(() => []), sources = nodes.map(() => []);
    for (const [a, b] of edges) { users[a].push(b); sources[b].push(a); }
    const rows = new Map();
    for (const node of nodes) {
      const row = Math.round(node.y);
      if (!rows.has(row)) rows.set(row, []);
      rows.get(row).push(node);
    }
    for (const row of rows.values()) row.sort((a, b) => a.x - b.x);

    const id = `g${views.length}`;
    const svg = draw("svg", { tabindex: "0", role: "application",
      "aria-label": `Graph ${title}: ${nodes.length} ops. Arrow keys go to the ops around the ` +
        "chosen one, plus and minus zoom." });
    const world = draw("g");
    const edgeLayer = draw("g"), boxLayer = draw("g"), over = draw("g");
    world.append(edgeLayer, boxLayer, over);
    svg.append(world);
    const blocks = make("ol", { class: "blocks", hidden: true, "aria-label": `Blocks ${title}` });
    const blocksButton = make("button", { type: "button", "aria-pressed": "false",
      onclick: () => showBlocks(blocks.hidden) }, "Blocks");
    const view = { title, nodes, named, svg, scale: 1, x: 0, y: 0, hits: new Set() };
    const at = new Map();
    let pending = false;

    const point = (index) => nodes[index];
    const path = (edge) => {
      const [a, b, bends] = edge;
      const from = point(a), to = point(b);
      let text = `M${from.x} ${from.y + H / 2}`;
      for (let i = 0; bends && i < bends.length; i += 2) text += `L${bends[i]} ${bends[i + 1]}`;
      return `${text}L${to.x} ${to.y - H / 2}`;
    };
    const paths = edges.map(path);
    const spans = edges.map(([a, b]) => [Math.min(nodes[a].y, nodes[b].y), Math.max(nodes[a].y, nodes[b].y)]);

    function size() {
      const box = svg.getBoundingClientRect();
      return [box.width || 400, box.height || 400];
    }
    function schedule() {
      if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; paint(); }); }
    }
    function paint() {
      const [width, height] = size();
      world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
      const left = (-view.x - 90) / view.scale - W, right = (width - view.x) / view.scale + W;
      const top = -view.y / view.scale - H, bottom = (height - view.y) / view.scale + H;
      const inside = (n) => n.x > left && n.x < right && n.y > top && n.y < bottom;
      let line = "";
      for (let i = 0; i < edges.length; i++) {
        if (spans[i][1] > top && spans[i][0] < bottom) line += paths[i];
      }
      edgeLayer.replaceChildren(draw("path", { class: "edge", d: line }));
      if (view.scale < DETAIL) {
        at.clear();
        const shapes = {};
        for (const n of nodes) {
          if (inside(n)) {
            shapes[n.category] = `${shapes[n.category] || ""}M${n.x - W / 2} ${n.y - H / 2}h${W}v${H}h${-W}z`;
          }
        }
        boxLayer.replaceChildren(...Object.entries(shapes).map(([category, d]) =>
          draw("path", { class: `${view.scale < 0.2 ? "" : "box "}c-${category}`, d })));
      } else {
        if (!at.size) boxLayer.replaceChildren();
        for (const [index, element] of at) {
          if (!inside(nodes[index])) { element.remove(); at.delete(index); }
        }
        for (const n of nodes) {
          if (inside(n) && !at.has(n.index)) {
            const element = nodeElement(n);
            at.set(n.index, element);
            boxLayer.append(element);
          }
          if (at.has(n.index)) at.get(n.index).classList.toggle("hit", view.hits.has(n.index));
        }
      }
      over.replaceChildren(...nodes.filter((n) => n.names.some((name) => chosen.includes(name)) ||
        n === view.cursor).map((n) => draw("rect", { class: "chosen", x: n.x - W / 2 - 4,
          y: n.y - H / 2 - 4, width: W + 8, height: H + 8, rx: 8 })));
    }
    function nodeElement(n) {
      const group = draw("g", { class: "node", id: `${id}n${n.index}`, role: "img",
        "aria-label": `${n.name} ${n.label}, ${n.category}`, "data-n": n.index });
      group.append(draw("rect", { class: `box c-${n.category}`, x: n.x - W / 2, y: n.y - H / 2,
        width: W, height: H, rx: n.category === "interface" ? 20 : 5 }));
      const name = draw("text", { x: n.x, y: n.y - 2 });
      name.textContent = shorten(n.name, 22);
      const sub = draw("text", { x: n.x, y: n.y + 13, class: "sub" });
      sub.textContent = shorten(n.label || (n.results[0] || n.operands[0] || ""), 25);
      const tip = draw("title");
      tip.textContent = `${n.name}\n${n.label}\n${n.results.join("\n")}`;
      group.append(name, sub, tip);
      return group;
    }
    function shorten(text, most) {
      return text.length <= most ? text : `${text.slice(0, most / 2 - 1)}…${text.slice(-most / 2)}`;
    }
    function zoom(factor, cx, cy) {
      const [width, height] = size();
      const px = cx ?? width / 2, py = cy ?? height / 2;
      const next = Math.min(Math.max(view.scale * factor, 0.005), 4);
      view.x = px - (px - view.x) * next / view.scale;
      view.y = py - (py - view.y) * next / view.scale;
      view.scale = next;
      schedule();
    }
    function fit(list) {
      if (!list.length) return;
      const [width, height] = size();
      const xs = list.map((n) => n.x), ys = list.map((n) => n.y);
      const x0 = Math.min(...xs) - W, x1 = Math.max(...xs) + W;
      const y0 = Math.min(...ys) - H, y1 = Math.max(...ys) + H;
      view.scale = Math.min(width / (x1 - x0), height / (y1 - y0), 1.2);
      view.x = (width - (x0 + x1) * view.scale) / 2;
      view.y = (height - (y0 + y1) * view.scale) / 2;
      schedule();
    }
    /** The start of the graph, at a size that can be read. */
    function start() {
      const [width] = size();
      view.scale = 0.85;
      view.x = width / 2 - (nodes[0] ? nodes[0].x : 0) * view.scale;
      view.y = 40;
      schedule();
    }
    function go(n) {
      const [width, height] = size();
      if (view.scale < DETAIL) view.scale = 0.85;
      view.x = width / 2 - n.x * view.scale;
      view.y = height / 2 - n.y * view.scale;
      schedule();
    }
    function showBlocks(on) {
      blocks.hidden = !on;
      svg.toggleAttribute("hidden", on);
      blocksButton.setAttribute("aria-pressed", String(on));
      if (!on) schedule();
    }
    for (const [a, b, repeats] of graph.blocks) {
      const length = (b - a) / repeats;
      const names = new Map();
      for (const n of nodes.slice(a, a + length)) names.set(n.name, (names.get(n.name) || 0) + 1);
      const what = [...names].map(([name, count]) => count > 1 ? `${count} ${name}` : name).join(", ");
      const times = repeats > 1 ? `${repeats} × ` : "";
      blocks.append(make("li", {}, make("button", { type: "button", class: "link", onclick: () => {
        showBlocks(false);
        fit(nodes.slice(a, b));
      } }, `${times}${length} ops`), ` from ${nodes[a].label || nodes[a].name}`, make("small", {}, what)));
    }
    let drag = null;
    svg.addEventListener("pointerdown", (event) => {
      drag = [event.clientX - view.x, event.clientY - view.y, event.clientX, event.clientY];
    });
    window.addEventListener("pointermove", (event) => {
      if (!drag) return;
      view.x = event.clientX - drag[0];
      view.y = event.clientY - drag[1];
      schedule();
    });
    window.addEventListener("pointerup", (event) => {
      if (!drag) return;
      const moved = Math.hypot(event.clientX - drag[2], event.clientY - drag[3]);
      const inView = svg.contains(event.target);
      drag = null;
      if (moved > 5 || !inView) return;
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left - view.x) / view.scale;
      const y = (event.clientY - box.top - view.y) / view.scale;
      const hit = nodes.find((n) => Math.abs(n.x - x) < W / 2 && Math.abs(n.y - y) < H / 2);
      if (hit) pick(hit);
    });
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    svg.addEventListener("keydown", (event) => {
      if (event.key === "+" || event.key === "=") return zoom(1.3);
      if (event.key === "-") return zoom(1 / 1.3);
      const now = view.cursor || nodes[0];
      if (!now) return;
      const row = rows.get(Math.round(now.y)), place = row.indexOf(now);
      const next = { ArrowDown: nodes[users[now.index][0]], ArrowUp: nodes[sources[now.index][0]],
        ArrowLeft: row[place - 1], ArrowRight: row[place + 1], Home: nodes[0], Enter: now }[event.key];
      if (!event.key.startsWith("Arrow") && event.key !== "Home" && event.key !== "Enter") return;
      event.preventDefault();
      if (next) { pick(next); go(next); }
    });
    function pick(n) {
      view.cursor = n;
      svg.setAttribute("aria-activedescendant", `${id}n${n.index}`);
      choose(n.names, false, view, n);
    }
    const button = (label, title_, act) => make("button",
      { type: "button", title: title_, "aria-label": `${title_}, ${title}`, onclick: act }, label);
    where.append(make("div", { class: "side" }, make("div", { class: "bar" },
      make("h3", {}, `${title} (${nodes.length} ops)`), blocksButton,
      button("Start", "Go to the start", () => { showBlocks(false); start(); }),
      button("All", "Show all", () => { showBlocks(false); fit(nodes); }),
      button("+", "Zoom in", () => zoom(1.4)), button("−", "Zoom out", () => zoom(1 / 1.4))), blocks, svg));
    Object.assign(view, { go, schedule, start, fit, users, sources, showBlocks, pick });
    if (graph.collapsed) showBlocks(true);
    new ResizeObserver(schedule).observe(svg);
    views.push(view);
    start();
  }

  /** Mark an op on both sides and tell about it. */
  function choose(names, move, from, node) {
    chosen = names;
    for (const view of views) {
      const found = names.flatMap((name) => view.named.get(name) || []);
      if (view !== from) {
        view.cursor = found[0];
        if (found.length) { view.showBlocks(false); view.go(found[0]); }
      }
      view.schedule();
    }
    detail(names, node);
    if (move) document.getElementById("graph").scrollIntoView({ behavior: "instant" });
  }

  function detail(names, node) {
    const panel = document.getElementById("detail");
    const parts = [];
    const list = (items) => make("ul", {}, ...items.slice(0, 24).map((item) => make("li", {}, item)),
      items.length > 24 ? make("li", {}, `and ${items.length - 24} more`) : null);
    for (const view of views) {
      const found = new Set(names.flatMap((name) => view.named.get(name) || []));
      if (node && view.nodes.includes(node)) found.add(node);
      for (const n of found) {
        const facts = make("dl");
        const fact = (name, value) => value &&
          facts.append(make("dt", {}, name), make("dd", { class: "mono" }, value));
        fact("name", n.label);
        fact("kind", n.category);
        fact("takes", n.operands.length ? list(n.operands) : "");
        fact("gives", n.results.length ? list(n.results) : "");
        fact("properties", n.attributes.length ? list(n.attributes.map(([k, v]) => `${k} = ${v}`)) : "");
        fact("price", n.price == null ? "" : `${number(n.price)} (elements rescaled)`);
        fact("where", n.location);
        parts.push(make("h3", {}, `${view.title}: ${n.name}`), facts);
      }
    }
    const told = [...new Set(names.flatMap((name) => data.history[name] || []))].sort((a, b) => a - b);
    if (data.remarks) {
      parts.push(make("h3", {}, `History (${told.length})`));
      parts.push(told.length ? list(told.map((i) => {
        const r = remark(i);
        return r.kind === "fired" ? `${r.pass}: ${r.rule} fired, ${r.contract}`
          : `${r.pass}: ${r.rule || r.code} ${r.kind}: ${r.reason}`;
      })) : make("p", { class: "note" }, "No rewrite names this op."));
    }
    const here = (data.findings || []).filter((f) => f.names.some((name) => names.includes(name)));
    if (here.length) {
      parts.push(make("h3", {}, "Boundary"), list(here.map((f) =>
        `${f.side} ${f.code}: ${f.message}${f.fix ? `; fix: ${f.fix}` : ""}`)));
    }
    panel.replaceChildren(...parts);
  }
  const remark = (i) => {
    const [kind, pass, rule, place, op, key, contract, code, reason] = data.remarks[i].map((t) => T[t]);
    return { kind, pass, rule, place, op, key, contract, code, reason };
  };

  // -- the page -------------------------------------------------------------------
  document.getElementById("subtitle").textContent = data.subtitle;
  table(section("summary", "Summary", data.summary.note), "Ops", data.summary.columns.map((name, i) =>
    ({ name, number: i > 0 })), data.summary.rows, false);

  const graphs = section("graph", "Graph",
    "Drag to move, wheel to zoom, click an op for its types and history; the same op is marked on " +
    "both sides. Blocks lists what repeats.");
  const search = make("input", { type: "search", list: "names", id: "search",
    placeholder: "name, op or type", "aria-label": "Search ops" });
  const found = make("span", { "aria-live": "polite" });
  let hits = [], turn = 0;
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    hits = [];
    for (const view of views) {
      view.hits.clear();
      if (wanted) for (const n of view.nodes) {
        if (`${n.name} ${n.label} ${n.category} ${n.names.join(" ")} ${n.results.join(" ")}`.toLowerCase().includes(wanted)) {
          view.hits.add(n.index);
          hits.push([view, n]);
        }
      }
      view.schedule();
    }
    turn = -1;
    found.textContent = wanted ? `${hits.length} found` : "";
  };
  const step = (by) => {
    if (!hits.length) return;
    turn = (turn + by + hits.length) % hits.length;
    const [view, n] = hits[turn];
    view.showBlocks(false);
    view.pick(n);
    view.go(n);
    found.textContent = `${turn + 1} of ${hits.length}, ${view.title}: ${n.name} ${n.label}`;
  };
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") step(event.shiftKey ? -1 : 1); });
  graphs.append(make("div", { class: "tools" }, search,
    make("button", { type: "button", onclick: () => step(-1) }, "Previous"),
    make("button", { type: "button", onclick: () => step(1) }, "Next"), found));
  graphs.append(make("ul", { class: "legend", "aria-label": "Colours" }, ...data.categories.map((category) =>
    make("li", {}, make("span", { class: `b-${category}` }), category))));
  const sides = make("div", { class: data.graphs.length > 1 ? "sides" : "sides one" });
  graphs.append(sides);
  for (const graph of data.graphs) graphView(graph.title, graph, sides);
  sides.append(make("aside", { id: "detail", "aria-live": "polite", "aria-label": "The chosen op", tabindex: "0" },
    make("p", { class: "note" }, "Click an op, or search for one.")));

  for (const part of data.tables) {
    const body = section(part.id, part.title, part.note);
    if (part.problem) body.append(make("p", { class: "problem" }, part.problem));
    if (!part.rows.length) { body.append(make("p", {}, part.empty)); continue; }
    const most = part.meter == null ? 1 : Math.max(...part.rows.map((row) => row[part.meter] ?? 0), 1e-9);
    table(body, part.caption, part.columns.map(([name, kind]) => ({ name, number: kind === "number" })),
      part.rows.map((row) => row.map((cell, i) => {
        const kind = part.columns[i][1];
        if (kind === "op") return cell[0] === "" ? "" : opCell(cell[0], cell[1]);
        if (i === part.meter) {
          return { text: number(cell), rank: cell ?? Infinity, show: () => cell == null
            ? make("span", {}, "exact")
            : make("span", {}, make("span", { class: "meter", style: `width:${Math.max(0, 80 * cell / most)}px` }), number(cell)) };
        }
        return cell;
      })));
  }
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
