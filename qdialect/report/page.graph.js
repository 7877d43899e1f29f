// A graph as boxes in boxes: a closed group is one box, an open one a frame around its parts.
// Drawing keeps only what is in view, so that thousands of ops stay quick: far out, one path
// per colour.
const W = 148, H = 40, DETAIL = 0.42, GAP = 28, DOWN = 24, PAD = 14, HEAD = 26;
const ALL_OPEN = 300, FIRST = 40;
const shared = { views: [], chosen: [] };

const shorten = (text, most) => text.length <= most ? text :
  `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`;

/** Nodes and groups of one side, and where they are while so many groups are open. */
function arrangement(graph) {
  const nodes = graph.nodes.map((n, index) => ({ index, name: T[n[0]], label: T[n[1]],
    category: data.categories[n[2]], names: n[3].map((t) => T[t]), location: T[n[4]],
    operands: n[5].map((t) => T[t]), results: n[6].map((t) => T[t]),
    attributes: n[7].map(([k, v]) => [T[k], T[v]]), price: n[8] }));
  const groups = graph.groups.map(([start, end, title, name, inside, parts, xs, rows, bends], id) =>
    ({ id, group: true, start, end, title: T[title], name: T[name], inside, xs, rows, bends, parts,
      open: id === 0, part: 0, depth: id === 0 ? 0 : -1 }));
  const item = (part) => part < 0 ? groups[-part] : nodes[part];
  const home = [], place = [];
  for (const g of groups) {
    g.items = g.parts.map(item);
    g.items.forEach((child, index) => {
      if (child.group) { child.part = index; child.depth = g.depth + 1; }
      else { home[child.index] = g.id; place[child.index] = index; }
    });
    g.mix = new Map();
  }
  for (const n of nodes) {
    for (let g = groups[home[n.index]]; g; g = groups[g.inside]) {
      g.mix.set(n.category, (g.mix.get(n.category) || 0) + 1);
    }
  }
  const seen = { items: [], frames: [], lines: [], next: new Map(), before: new Map() };

  /** Widths and heights from the inside out; in each row, parts keep their order and room. */
  function measure(g) {
    const rows = [];
    const put = (row, x, w, h, child, key) => (rows[row] ??= []).push({ x, w, h, child, key });
    g.items.forEach((child, i) => {
      if (!child.group) [child.w, child.h] = [W, H];
      else if (child.open) measure(child);
      else [child.w, child.h] = [W + 20, H + 12];
      put(g.rows[i], g.xs[i], child.w, child.h, child);
    });
    for (const [a, b, ...points] of g.bends) {
      for (let i = 0; i < points.length; i += 2) put(points[i + 1], points[i], 12, 0, null, `${a},${b}`);
    }
    let y = g.inside < 0 ? PAD : HEAD + PAD / 2, left = Infinity, right = -Infinity;
    g.placed = [];
    for (const row of rows) {
      if (!row) continue;
      row.sort((a, b) => a.x - b.x);
      // As far left and as far right as there is room: the middle of both has room, too.
      const packed = (list, sign) => {
        let edge = -Infinity;
        return list.map((e) => {
          const at = Math.max(sign * e.x, edge + e.w / 2);
          edge = at + e.w / 2 + GAP;
          return sign * at;
        });
      };
      const one = packed(row, 1), other = packed([...row].reverse(), -1).reverse();
      const tall = Math.max(...row.map((e) => e.h));
      row.forEach((e, i) => {
        e.at = (one[i] + other[i]) / 2;
        e.y = y + tall / 2;
        left = Math.min(left, e.at - e.w / 2);
        right = Math.max(right, e.at + e.w / 2);
        g.placed.push(e);
      });
      y += tall + DOWN;
    }
    const least = g.inside < 0 ? 0 : W + 2 * PAD;
    const extra = Math.max(0, least - (right - left + 2 * PAD)) / 2;
    for (const e of g.placed) e.at += PAD + extra - left;
    g.w = right - left + 2 * PAD + 2 * extra;
    g.h = y - DOWN + PAD;
  }
  function settle(g, left, top) {
    g.bent = new Map();
    for (const e of g.placed) {
      const x = left + e.at, y = top + e.y;
      if (!e.child) {
        if (!g.bent.has(e.key)) g.bent.set(e.key, []);
        g.bent.get(e.key).push(x, y);
        continue;
      }
      e.child.x = x;
      e.child.y = y;
      if (e.child.group && e.child.open) {
        seen.frames.push(e.child);
        settle(e.child, x - e.w / 2, y - e.h / 2);
      } else seen.items.push(e.child);
    }
  }
  /** Everything anew, after groups were opened or closed; linear. */
  function arrange() {
    measure(groups[0]);
    Object.assign(seen, { items: [], frames: [], lines: [], next: new Map(), before: new Map() });
    settle(groups[0], 0, 0);
    const closed = [];
    for (const g of groups) closed[g.id] = (g.inside >= 0 && closed[g.inside]) || (g.open ? null : g);
    seen.shown = (n) => closed[home[n.index]] || n;
    const drawn = new Set();
    for (const [a, b] of graph.edges) {
      const from = seen.shown(nodes[a]), to = seen.shown(nodes[b]);
      const key = `${from.group ? "g" + from.id : from.index} ${to.group ? "g" + to.id : to.index}`;
      if (from === to || drawn.has(key)) continue;
      drawn.add(key);
      const line = path(a, b, from, to);
      seen.lines.push([line, Math.min(from.y, to.y), Math.max(from.y, to.y)]);
      if (!seen.next.has(from)) seen.next.set(from, to);
      if (!seen.before.has(to)) seen.before.set(to, from);
    }
  }
  /** From box to box, through the points that the innermost group around both has for it. */
  function path(a, b, from, to) {
    let g = groups[home[a]], i = place[a], k = groups[home[b]], j = place[b];
    while (g !== k) {
      if (g.depth >= k.depth) [g, i] = [groups[g.inside], g.part];
      else [k, j] = [groups[k.inside], k.part];
    }
    const bent = g.open ? g.bent.get(`${i},${j}`) || [] : [];
    let line = `M${from.x} ${from.y + from.h / 2}`;
    for (let p = 0; p < bent.length; p += 2) line += `L${bent[p]} ${bent[p + 1]}`;
    return `${line}L${to.x} ${to.y - to.h / 2}`;
  }
  function openAll(on) {
    for (const g of groups) g.open = on || g.id === 0;
  }
  /** So many groups open, from the outside in, that there is something to see. */
  function openFirst() {
    openAll(nodes.length <= ALL_OPEN);
    if (nodes.length <= ALL_OPEN) return;
    let count = groups[0].items.length;
    for (const g of groups.slice(1)) {
      if (!groups[g.inside].open || count + g.items.length > FIRST) continue;
      g.open = true;
      count += g.items.length - 1;
    }
  }
  /** Open what a node is in. */
  function reveal(n) {
    let opened = false;
    for (let g = groups[home[n.index]]; g; g = groups[g.inside]) {
      opened ||= !g.open;
      g.open = true;
    }
    if (opened) arrange();
  }
  const around = (it) => groups[it.group ? it.inside : home[it.index]];
  openFirst();
  arrange();
  return { nodes, groups, seen, arrange, openAll, reveal, around };
}

/** One side in its frame; `on.choose` is told of a chosen op, `on.group` of a group. */
function graphView(title, graph, where, on) {
  const { nodes, groups, seen, arrange, openAll, reveal, around } = arrangement(graph);
  const named = new Map();
  for (const node of nodes) for (const name of node.names) {
    if (!named.has(name)) named.set(name, []);
    named.get(name).push(node);
  }
  const id = `g${shared.views.length}`;
  const svg = draw("svg", { tabindex: "0", role: "application",
    "aria-label": `Graph ${title}: ${nodes.length} ops. Arrow keys go to what is around the ` +
      "chosen op or group, Enter opens a group, Escape closes the one around, plus and minus zoom." });
  const world = draw("g");
  const frameLayer = draw("g"), edgeLayer = draw("g"), boxLayer = draw("g"), over = draw("g");
  world.append(frameLayer, edgeLayer, boxLayer, over);
  svg.append(world);
  const view = { title, nodes, named, svg, scale: 1, x: 0, y: 0, hits: new Set(), cursor: null };
  const elements = new Map();
  let pending = false;

  function size() {
    const box = svg.getBoundingClientRect();
    return [box.width || 400, box.height || 400];
  }
  function schedule() {
    if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; paint(); }); }
  }
  const keyOf = (it) => it.group ? `${id}g${it.id}` : `${id}n${it.index}`;
  const isHit = (it) => it.group ? view.hitGroups?.has(it) : view.hits.has(it.index);
  function paint() {
    const [width, height] = size();
    world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    const left = -view.x / view.scale, right = (width - view.x) / view.scale;
    const top = -view.y / view.scale, bottom = (height - view.y) / view.scale;
    const inside = (it) => it.x + it.w / 2 > left && it.x - it.w / 2 < right &&
      it.y + it.h / 2 > top && it.y - it.h / 2 < bottom;
    let line = "";
    for (const [text, from, to] of seen.lines) if (to > top && from < bottom) line += text;
    edgeLayer.replaceChildren(draw("path", { class: "edge", d: line }));
    const items = seen.items.filter(inside), frames = seen.frames.filter(inside);
    const near = view.scale >= DETAIL;
    const wanted = new Map();
    if (near) for (const it of [...frames, ...items]) wanted.set(keyOf(it) + (it.open ? "o" : ""), it);
    for (const [key, element] of elements) {
      if (!wanted.has(key)) { element.remove(); elements.delete(key); }
    }
    if (!near) {
      const shapes = {};
      const add = (kind, it) => {
        shapes[kind] = `${shapes[kind] || ""}M${it.x - it.w / 2} ${it.y - it.h / 2}h${it.w}v${it.h}h${-it.w}z`;
      };
      for (const it of frames) add("frame", it);
      for (const it of items) {
        add(it.group ? "c-group" : `c-${it.category}`, it);
        if (it.group) for (const [category, share] of shares(it)) add(`c-${category}`, share);
      }
      const far = view.scale < 0.2 ? "" : "box ";
      frameLayer.replaceChildren();
      boxLayer.replaceChildren(...Object.entries(shapes).map(([kind, d]) =>
        draw("path", { class: kind === "frame" ? "frame" : far + kind, d })));
    } else if (!elements.size) boxLayer.replaceChildren();
    for (const [key, it] of wanted) {
      if (!elements.has(key)) {
        const element = it.open ? frameElement(it) : it.group ? groupElement(it) : nodeElement(it);
        elements.set(key, element);
        (it.open ? frameLayer : boxLayer).append(element);
      }
      elements.get(key).classList.toggle("hit", !!isHit(it));
    }
    const marked = new Set(nodes.filter((n) => n === view.cursor ||
      n.names.some((name) => shared.chosen.includes(name))).map(seen.shown));
    if (view.cursor?.group) marked.add(view.cursor);
    over.replaceChildren(...[...marked].map((it) => draw("rect", { class: "chosen",
      x: it.x - it.w / 2 - 4, y: it.y - it.h / 2 - 4, width: it.w + 8, height: it.h + 8, rx: 8 })));
  }
  function boxed(it, kind, label, rx) {
    const group = draw("g", { class: kind, id: keyOf(it), role: "img", "aria-label": label });
    return [group, draw("rect", { x: it.x - it.w / 2, y: it.y - it.h / 2, width: it.w, height: it.h, rx })];
  }
  function text(x, y, words, kind = "") {
    const element = draw("text", { x, y, class: kind });
    element.textContent = words;
    return element;
  }
  function nodeElement(n) {
    const [group, box] = boxed(n, "node", `${n.name} ${n.label}, ${n.category}`,
      n.category === "interface" ? 20 : 5);
    box.setAttribute("class", `box c-${n.category}`);
    const tip = draw("title");
    tip.textContent = `${n.name}\n${n.label}\n${n.results.join("\n")}`;
    const below = n.label || (n.results[0] || n.operands[0] || "");
    group.append(box, text(n.x, n.y - 2, shorten(n.name, 22)),
      text(n.x, n.y + 13, shorten(below, 25), "sub"), tip);
    return group;
  }
  /** What is in a closed group, as parts of a bar. */
  function shares(g) {
    let x = g.x - g.w / 2 + 8;
    return [...g.mix].map(([category, count]) => {
      const w = (g.w - 16) * count / (g.end - g.start);
      x += w;
      return [category, { x: x - w / 2, y: g.y + g.h / 2 - 9.5, w, h: 7 }];
    });
  }
  function groupElement(g) {
    const [group, box] = boxed(g, "node group", `Group of ${g.title}, ${g.name}, closed`, 9);
    box.setAttribute("class", "box c-group");
    group.append(box, text(g.x, g.y - 7, `▸ ${g.title}`), text(g.x, g.y + 7, shorten(g.name, 29), "sub"));
    for (const [category, { x, y, w, h }] of shares(g)) {
      group.append(draw("rect", { class: `box c-${category}`, x: x - w / 2, y: y - h / 2, width: w, height: h }));
    }
    const tip = draw("title");
    tip.textContent = `${g.title}: ${g.name}\n${[...g.mix].map(([k, n]) => `${n} ${k}`).join(", ")}`;
    group.append(tip);
    return group;
  }
  function frameElement(g) {
    const [group, box] = boxed(g, "node frame-of", `Group of ${g.title}, ${g.name}, open`, 9);
    box.setAttribute("class", "frame");
    const words = shorten(`▾ ${g.title}, ${g.name}`, Math.floor((g.w - 20) / 6.4));
    group.append(box, text(g.x - g.w / 2 + 10, g.y - g.h / 2 + 17, words, "head"));
    return group;
  }
  function zoom(factor, cx, cy) {
    const [width, height] = size();
    const px = cx ?? width / 2, py = cy ?? height / 2;
    const next = Math.min(Math.max(view.scale * factor, 0.003), 4);
    view.x = px - (px - view.x) * next / view.scale;
    view.y = py - (py - view.y) * next / view.scale;
    view.scale = next;
    schedule();
  }
  function fit() {
    const [width, height] = size();
    view.scale = Math.min(width / (groups[0].w + 20), height / (groups[0].h + 20), 1.2);
    view.x = (width - groups[0].w * view.scale) / 2;
    view.y = Math.max(10, (height - groups[0].h * view.scale) / 2);
    schedule();
  }
  /** The start of the graph, at a size that can be read. */
  function start() {
    const first = seen.items[0];
    view.scale = 0.85;
    view.x = size()[0] / 2 - (first ? first.x : 0) * view.scale;
    view.y = 12;
    schedule();
  }
  function go(it) {
    const [width, height] = size();
    if (view.scale < DETAIL) view.scale = 0.85;
    view.x = width / 2 - it.x * view.scale;
    view.y = height / 2 - it.y * view.scale;
    schedule();
  }
  function redraw() {
    for (const element of elements.values()) element.remove();
    elements.clear();
    countHits();
    schedule();
  }
  function countHits() {
    view.hitGroups = new Set(nodes.filter((n) => view.hits.has(n.index)).map(seen.shown));
  }
  /** Open or close a group; its upper edge stays where it is. */
  function toggle(g, open) {
    const x = g.x, y = g.y - g.h / 2;
    g.open = open;
    arrange();
    view.x += (x - g.x) * view.scale;
    view.y += (y - (g.y - g.h / 2)) * view.scale;
    view.cursor = g;
    redraw();
    on.group(view, g);
  }
  function show(n) {
    reveal(n);
    redraw();
    go(n);
  }
  const all = (open) => { openAll(open); arrange(); redraw(); open ? fit() : start(); };

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
    drag = null;
    if (moved > 5 || !svg.contains(event.target)) return;
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left - view.x) / view.scale;
    const y = (event.clientY - box.top - view.y) / view.scale;
    const within = (it) => Math.abs(it.x - x) < it.w / 2 && Math.abs(it.y - y) < it.h / 2;
    const hit = seen.items.find(within);
    if (hit) return hit.group ? toggle(hit, true) : pick(hit);
    const frame = seen.frames.findLast((g) => within(g) && y < g.y - g.h / 2 + HEAD);
    if (frame) toggle(frame, false);
  });
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  /** What is beside an item, in its row. */
  const beside = (it, sign) => seen.items
    .filter((o) => o !== it && Math.abs(o.y - it.y) < H && sign * (o.x - it.x) > 0)
    .sort((a, b) => sign * (a.x - b.x))[0];
  svg.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") return zoom(1.3);
    if (event.key === "-") return zoom(1 / 1.3);
    const now = view.cursor && !view.cursor.open && seen.items.includes(view.cursor)
      ? view.cursor : view.cursor?.open ? view.cursor : seen.items[0];
    if (!now) return;
    const inner = now.group && now.open ? now.items[0] : null;
    const next = {
      ArrowDown: () => inner || seen.next.get(now),
      ArrowUp: () => seen.before.get(now) || (inner && around(now).id ? around(now) : null),
      ArrowLeft: () => beside(now, -1), ArrowRight: () => beside(now, 1),
      Home: () => seen.items[0],
      Enter: () => { if (now.group) toggle(now, !now.open); else pick(now); },
      Escape: () => { const g = now.open ? now : around(now); if (g.id) toggle(g, false); },
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const found = next();
    if (found) { pick(found); go(found); }
  });
  function pick(it) {
    view.cursor = it;
    svg.setAttribute("aria-activedescendant", keyOf(it));
    if (it.group) { on.group(view, it); schedule(); }
    else on.choose(it.names, false, view, it);
  }
  const button = (label, title_, act) => make("button",
    { type: "button", title: title_, "aria-label": `${title_}, ${title}`, onclick: act }, label);
  const opens = groups.length > 1;
  where.append(make("div", { class: "side" }, make("div", { class: "bar" },
    make("h3", {}, `${title} (${nodes.length.toLocaleString("en")} ops)`),
    opens ? button("Open", "Open all groups", () => all(true)) : null,
    opens ? button("Close", "Close all groups", () => all(false)) : null,
    button("Start", "Go to the start", start), button("All", "Show all", fit),
    button("+", "Zoom in", () => zoom(1.4)), button("−", "Zoom out", () => zoom(1 / 1.4))), svg));
  Object.assign(view, { show, schedule, pick, countHits });
  new ResizeObserver(schedule).observe(svg);
  shared.views.push(view);
  start();
}
