"use strict";
// Elements, numbers, sections, the theme and tables.
const data = JSON.parse(document.getElementById("data").textContent);
const T = data.text;
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
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
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

// -- theme -----------------------------------------------------------------------
(() => {
  const names = { auto: "as the system", light: "light", dark: "dark" };
  const themes = Object.keys(names);
  const button = document.getElementById("theme");
  let theme = new URLSearchParams(location.search).get("theme");
  if (!themes.includes(theme)) theme = "auto";
  const show = () => {
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${names[theme]}`;
  };
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    show();
  });
  show();
})();

// -- tables ----------------------------------------------------------------------
const PAGE = 50;
/** Rows that can be sorted and filtered. A cell is a text, a number, nothing, or an object:
 *  its `text`, what it is sorted by (`rank`), and what is shown (`show`). */
function table(where, caption, columns, rows, filterable = rows.length > 12) {
  let shown = PAGE, order = null, down = false, wanted = "";
  const body = make("tbody");
  const status = make("p", { class: "note", "aria-live": "polite" });
  const more = make("button", { type: "button", onclick: () => { shown += 10 * PAGE; fill(); } },
    "Show more");
  const heads = columns.map((column, index) => make("th",
    { scope: "col", class: column.number ? "n" : "" },
    make("button", { type: "button", onclick: () => sort(index) }, column.name)));
  const plain = (cell) => cell == null ? "" : typeof cell === "object" ? cell.text : String(cell);
  const rank = (cell) => cell == null ? -Infinity :
    typeof cell === "object" ? cell.rank ?? cell.text : cell;
  function sort(index) {
    down = order === index ? !down : !!columns[index].number;
    order = index;
    heads.forEach((head, i) => i === index
      ? head.setAttribute("aria-sort", down ? "descending" : "ascending")
      : head.removeAttribute("aria-sort"));
    fill();
  }
  function fill() {
    const list = wanted
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
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), body));
  where.append(scroll, status, more);
  fill();
}

// -- latency against loss ----------------------------------------------------------
function frontPlot(points, width, height) {
  const svg = draw("svg", { class: "front", viewBox: `0 0 ${width} ${height}`, width, height,
    role: "img", "aria-label": "Latency, as a share of the float model, against SQNR; the table below has the numbers" });
  const known = points.filter((p) => p.sqnr_db != null);
  const most = Math.max(...known.map((p) => p.sqnr_db), 1), least = Math.min(...known.map((p) => p.sqnr_db), most - 1);
  // What has no noise is at the upper edge.
  const db = (p) => p.sqnr_db == null ? most + (most - least) * 0.1 : p.sqnr_db;
  const slow = Math.max(...points.map((p) => p.ratio), 1), fast = Math.min(...points.map((p) => p.ratio)) * 0.95;
  const x = (ratio) => 40 + (ratio - fast) / (slow * 1.05 - fast) * (width - 60);
  const y = (value) => 10 + (1 - (value - least) / (most + (most - least) * 0.1 - least || 1)) * (height - 45);
  const text = (at, words, anchor) => {
    const found = draw("text", { x: at[0], y: at[1], "text-anchor": anchor });
    found.textContent = words;
    svg.append(found);
  };
  svg.append(draw("path", { class: "axes", d: `M40 5V${height - 30}H${width - 10}` }));
  text([36, y(most) + 4], most.toFixed(0), "end");
  text([36, y(least) + 4], least.toFixed(0), "end");
  text([36, height - 12], "dB", "end");
  for (const at of [fast / 0.95, slow]) text([x(at), height - 14], at.toFixed(2), "middle");
  text([(width + 40) / 2, height - 2], "latency, of float", "middle");
  const front = points.filter((p) => p.on_front).sort((a, b) => a.ratio - b.ratio);
  if (front.length) svg.append(draw("path", { class: "line",
    d: "M" + front.map((p) => `${x(p.ratio)} ${y(db(p))}`).join("L") }));
  for (const p of points) {
    const dot = draw("circle", { class: p.chosen ? "chosen" : p.on_front ? "on" : "off",
      cx: x(p.ratio), cy: y(db(p)), r: p.chosen ? 6 : 4 });
    const title = draw("title", {});
    title.textContent = `${p.name}: ${p.milliseconds.toPrecision(3)} ms, ` +
      (p.sqnr_db == null ? "no noise" : `${p.sqnr_db.toFixed(1)} dB`) +
      (p.metric == null ? "" : `, metric ${p.metric.toPrecision(4)}`);
    dot.append(title);
    svg.append(dot);
  }
  return svg;
}

// -- histograms --------------------------------------------------------------------
/** Data as bars, their heights logarithmic, and the range that was chosen for it. */
function histogram(h, width, height) {
  const svg = draw("svg", { class: "histogram", viewBox: `0 0 ${width} ${height}`, width, height,
    role: "img", "aria-label": `Values from ${number(h.minimum)} to ${number(h.maximum)}, range ` +
      `from ${number(h.low)} to ${number(h.high)}, ${h.outside}` });
  const span = h.stop - h.start || 1;
  const x = (value) => (value - h.start) / span * (width - 4) + 2;
  const most = Math.log1p(Math.max(...h.counts, 1));
  const each = (width - 4) / h.counts.length;
  let bars = "";
  h.counts.forEach((count, index) => {
    const tall = count ? Math.max(1.5, Math.log1p(count) / most * (height - 6)) : 0;
    if (tall) bars += `M${2 + index * each} ${height - 1}v${-tall}h${each}v${tall}z`;
  });
  const a = x(h.low), b = x(h.high);
  svg.append(draw("rect", { class: "range", x: a, y: 0, width: Math.max(b - a, 0.5), height }),
    draw("path", { class: "bars", d: bars }),
    draw("path", { class: "ends", d: `M${a} 0v${height}M${b} 0v${height}` }));
  return svg;
}
