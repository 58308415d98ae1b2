"use strict";
// Draws the charts of the page from the JSON beside them. No library, nothing is fetched.
const SVG = document.querySelector("svg").namespaceURI;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function scaled(value, units) {
  for (const [limit, size, unit] of units) if (Math.abs(value) < limit) return `${+(value / size).toPrecision(3)} ${unit}`;
  return "";
}
const bytesText = (value) => scaled(value, [[1e3, 1, "B"], [1e6, 1e3, "kB"], [1e9, 1e6, "MB"], [Infinity, 1e9, "GB"]]);
const timeText = (us) => scaled(us, [[1e3, 1, "us"], [1e6, 1e3, "ms"], [Infinity, 1e6, "s"]]);
const rateText = (value) => scaled(value, [[1e9, 1e6, "M"], [1e12, 1e9, "G"], [Infinity, 1e12, "T"]]);

function table(columns, rows, kind = "") {
  const head = element("tr", {}, ...columns.map((name) => element("th", name.startsWith(">") ? { class: "n" } : {}, name.replace(">", ""))));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, n) => element("td", columns[n].startsWith(">") ? { class: "n" } : {}, String(cell)))));
  return element("table", kind ? { class: kind } : {}, head, ...body);
}

// Round times for an axis of a given length: 1, 2 or 5 times a power of ten.
function ticks(from, to, most = 8) {
  const least = (to - from) / most, power = 10 ** Math.floor(Math.log10(least || 1));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) || 1;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-6; at += step) found.push(at);
  return found;
}

// A window on [0, step] that wheel and drag change; `draw` draws it.
function zoomable(svg, step, draw) {
  let from = 0, to = step || 1, held = null;
  const width = () => svg.getBoundingClientRect().width || 1100;
  const show = (a, b) => {
    const span = Math.min(Math.max(b - a, step / 1e5), step || 1);
    from = Math.min(Math.max(0, a), Math.max(0, step - span)); to = from + span;
    draw(from, to);
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = from + ((to - from) * (event.clientX - svg.getBoundingClientRect().left)) / width(), factor = event.deltaY > 0 ? 1.3 : 1 / 1.3;
    show(at - (at - from) * factor, at + (to - at) * factor);
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => { held = [event.clientX, from, to]; });
  window.addEventListener("pointerup", () => { held = null; });
  window.addEventListener("pointermove", (event) => {
    if (!held) return;
    const moved = ((event.clientX - held[0]) * (held[2] - held[1])) / width();
    show(held[1] - moved, held[2] - moved);
  });
  svg.addEventListener("dblclick", () => show(0, step));
  show(0, step);
}

const WIDTH = 1100, LANE = 30, LEFT = 130;

function axis(svg, from, to, height, place) {
  for (const at of ticks(from, to)) {
    svg.append(shape("line", { class: "axis", x1: place(at), x2: place(at), y1: 0, y2: height }));
    svg.append(label(place(at), height + 12, timeText(at) || "0"));
  }
}

// A label to the right of a line, or to its left where the picture ends.
function label(x, y, text) {
  const isLast = x + 2 + 7 * text.length > WIDTH;
  return shape("text", { x: isLast ? x - 2 : x + 2, y, "text-anchor": isLast ? "end" : "start" }, text);
}

const shortened = (name, most) => (name.length > most ? `\u2026${name.slice(1 - most)}` : name);

const CHARTS = {
  timeline(data, box) {
    const height = LANE * data.lanes.length, svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${height + 18}`, role: "img", "aria-label": "timeline" });
    const tip = element("div", { class: "tip" });
    box.append(svg, tip);
    zoomable(svg, data.step, (from, to) => {
      const place = (at) => LEFT + ((at - from) * (WIDTH - LEFT)) / (to - from);
      svg.replaceChildren();
      axis(svg, from, to, height, place);
      data.lanes.forEach((lane, number) => {
        svg.append(shape("text", { x: 0, y: LANE * number + 18 }, lane.name));
        let last = -1;
        for (const [start, takes, label, moves] of lane.spans) {
          if (start > to || start + takes < from) continue;
          const x = Math.max(LEFT, place(start)), end = Math.min(WIDTH, place(start + takes));
          if (end - x < 0.4 && x - last < 0.4) continue; // no more than the eye sees
          last = x;
          const bar = shape("rect", { class: moves ? "collective" : "kernel", x, y: LANE * number + 4, width: Math.max(0.5, end - x - 0.3), height: LANE - 8 });
          bar.addEventListener("pointerenter", () => { tip.textContent = `${lane.labels[label].replace("\n", "  ")}: ${timeText(takes)}, from ${timeText(start)}`; });
          svg.append(bar);
          const name = lane.labels[label].split("\n")[0];
          if (end - x > 7 * name.length) svg.append(shape("text", { x: x + 3, y: LANE * number + 19, "pointer-events": "none" }, name));
        }
      });
    });
  },

  memory(data, box) {
    for (const part of data.memory) {
      const top = 140, rows = part.buffers.length, height = top + 14 * rows, most = Math.max(part.peak, 1);
      const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${height + 18}`, role: "img", "aria-label": "memory over time" }), tip = element("div", { class: "tip" });
      box.append(svg, tip);
      zoomable(svg, data.step, (from, to) => {
        const place = (at) => LEFT + ((at - from) * (WIDTH - LEFT)) / (to - from), level = (bytes) => top - (bytes / most) * (top - 14);
        const points = [[LEFT, top]];
        let before = 0;
        for (const [at, bytes] of part.curve) {
          if (at > to) break;
          const x = Math.max(LEFT, place(at));
          points.push([x, level(before)], [x, level(bytes)]);
          before = bytes;
        }
        points.push([WIDTH, level(before)], [WIDTH, top]);
        svg.replaceChildren(shape("polygon", { class: "area", points: points.map((p) => p.join()).join(" ") }));
        axis(svg, from, to, height, place);
        svg.append(shape("text", { x: 0, y: 20 }, `peak ${bytesText(part.peak)}`));
        part.buffers.forEach((buffer, n) => {
          if (buffer.to < from || buffer.from > to) return;
          const x = Math.max(LEFT, place(buffer.from)), end = Math.min(WIDTH, place(buffer.to));
          const bar = shape("rect", { class: buffer.kind === "temporary" ? "kernel" : "collective", x, y: top + 14 * n + 3, width: Math.max(1, end - x), height: 10 });
          bar.addEventListener("pointerenter", () => { tip.textContent = `${buffer.name} ${buffer.type}, ${buffer.kind}, ${bytesText(buffer.bytes)}  ${buffer.source}`; });
          svg.append(bar, shape("text", { x: 0, y: top + 14 * n + 12 }, `${shortened(buffer.name, 12)} ${bytesText(buffer.bytes)}`));
        });
      });
    }
  },

  roofline(data, box) {
    const all = data.kernels.reduce((sum, k) => sum + k.total, 0), dots = data.kernels.filter((k) => k.flops > 0 && k.bytes > 0 && k.total > 1e-3 * all);
    const height = 320, peak = Math.max(...Object.values(data.roofline.peaks), 1), named = new Map();
    for (const [name, rate] of Object.entries(data.roofline.peaks)) named.set(rate, [...(named.get(rate) || []), name]);
    const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${height + 30}`, role: "img", "aria-label": "roofline" }), tip = element("div", { class: "tip" });
    const intensities = [...dots.map((k) => k.flops / k.bytes), peak / data.roofline.bandwidth];
    const low = Math.log10(Math.min(...intensities)) - 0.5, high = Math.log10(Math.max(...intensities)) + 0.5;
    const rates = [...dots.map((k) => k.flops / k.seconds), peak], bottom = Math.log10(Math.min(...rates)) - 0.5, top = Math.log10(peak) + 0.3;
    const x = (v) => LEFT + ((Math.log10(v) - low) / (high - low)) * (WIDTH - LEFT), y = (v) => height - ((Math.log10(v) - bottom) / (top - bottom)) * height;
    for (let power = Math.ceil(bottom); power <= top; power++) svg.append(shape("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: y(10 ** power), y2: y(10 ** power) }), shape("text", { x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, `${rateText(10 ** power)}FLOP/s`));
    let free = 0; // names of close peaks are below each other
    for (const [rate, names] of [...named].sort((a, b) => b[0] - a[0])) {
      const ridge = rate / data.roofline.bandwidth, at = Math.max(y(rate) - 3, free);
      free = at + 12;
      svg.append(shape("polyline", { class: "roof", "stroke-opacity": 0.5, points: `${x(ridge)},${y(rate)} ${WIDTH},${y(rate)}` }), shape("text", { x: WIDTH, y: at, "text-anchor": "end" }, `${names.join(", ")}: ${rateText(rate)}FLOP/s`));
    }
    const lowest = 10 ** low;
    svg.append(shape("line", { class: "roof", x1: x(lowest), y1: Math.min(height, y(lowest * data.roofline.bandwidth)), x2: x(peak / data.roofline.bandwidth), y2: y(peak) }));
    svg.append(shape("text", { x: LEFT + 10, y: 14 }, `${data.roofline.device}: ${rateText(data.roofline.bandwidth)}B/s of memory`), shape("text", { x: (LEFT + WIDTH) / 2, y: height + 26, "text-anchor": "middle" }, "operations per byte"));
    for (let power = Math.ceil(low); power <= high; power++) svg.append(shape("line", { class: "axis", x1: x(10 ** power), x2: x(10 ** power), y1: 0, y2: height }), label(x(10 ** power), height + 12, String(+(10 ** power).toPrecision(2))));
    for (const k of dots) {
      const dot = shape("circle", { class: "dot", cx: x(k.flops / k.bytes), cy: y(k.flops / k.seconds), r: 3 + 22 * Math.sqrt(k.total / all) });
      dot.addEventListener("pointerenter", () => { tip.textContent = `${k.name}: ${k.launches} launches, ${timeText(k.seconds * 1e6)} each, ${rateText(k.flops / k.seconds)}FLOP/s, ${rateText(k.bytes / k.seconds)}B/s`; });
      svg.append(dot);
    }
    box.append(svg, tip);
  },

  kernels(data, box) {
    for (const k of data.kernels) {
      const fold = element("details", { class: "kernel-row", "data-search": `${k.name} ${k.ops.join(" ")} ${k.sources.join(" ")}` });
      fold.append(element("summary", {}, element("b", {}, `${k.launches} x ${k.name}`), element("span", {}, `${timeText(k.total * 1e6)}, ${rateText(k.flops / k.seconds)}FLOP/s, ${rateText(k.bytes / k.seconds)}B/s`)));
      fold.addEventListener("toggle", () => {
        if (fold.childElementCount > 1) return;
        fold.append(element("p", {}, `${k.ops.join(", ")}; from ${k.sources.join(", ") || "unknown places"}`));
        if (data.code.triton[k.name]) fold.append(element("pre", {}, data.code.triton[k.name]));
        for (const [name, text] of Object.entries(data.code.ptx)) if (name.startsWith(`${k.name} (`)) fold.append(element("details", {}, element("summary", {}, `PTX, ${name}`), element("pre", {}, text)));
        const left = data.code.left_out.filter((name) => name === k.name || name.startsWith(`${k.name} (`));
        if (left.length) fold.append(element("p", { class: "note" }, `code that does not fit here: ${left.join(", ")}; meshgen inspect OUT.mgx --kernel ${k.name} has its source`));
      });
      box.append(fold);
    }
    if (data.code.refused) box.append(element("pre", {}, data.code.refused));
  },

  files(data, box) {
    for (const file of data.files) {
      const rows = file.lines.map(([number, text, figures]) => {
        const [count, bytes, seconds, exposed, kernels] = figures || [0, 0, 0, 0, 0];
        const cells = [count || "", count ? bytesText(bytes) : "", count ? timeText(seconds * 1e6) : "", exposed > 1e-9 ? timeText(exposed * 1e6) : "", kernels ? timeText(kernels * 1e6) : "", number, text];
        return element("tr", figures && count ? { class: "hot" } : {}, ...cells.map((cell, n) => element("td", { class: n === 6 ? "code" : "n" }, String(cell))));
      });
      const head = element("tr", {}, ...["collectives", "bytes", "on links", "exposed", "kernels", "line", ""].map((name) => element("th", { class: "n" }, name)));
      const fold = element("details", { "data-search": file.name }, element("summary", {}, file.name), element("div", { class: "wide" }, element("table", { class: "source" }, head, ...rows)));
      fold.open = box.childElementCount === 0 && file.lines.length < 400;
      box.append(fold);
    }
  },

  pictures(data, box) {
    const range = ([from, to]) => `${from}:${Math.max(from, to)}`;
    for (const picture of data.pictures) {
      const figure = element("figure", { "data-search": picture.names.join(" ") }, element("figcaption", {}, element("b", {}, picture.names.slice(0, 6).join(", ") + (picture.names.length > 6 ? ` and ${picture.names.length - 6} more` : "")), element("br"), picture.title));
      for (const grid of picture.grids) {
        const made = element("table");
        if (grid.outer.length) made.append(element("caption", {}, `[${grid.outer.map(range).join(", ")}]`));
        made.append(element("tr", {}, element("th"), ...grid.columns.map((c) => element("th", {}, range(c)))));
        grid.cells.forEach((row, n) => made.append(element("tr", {}, element("th", {}, range(grid.rows[n])), ...row.map(([text, first]) => element("td", first < 0 ? {} : { style: `background: hsl(${(first * 137) % 360} 60% 50% / 0.35)` }, text)))));
        figure.append(made);
      }
      box.append(figure);
    }
  },

  matrices(data, box) {
    for (const matrix of data.matrices) {
      const most = Math.max(1, ...matrix.bytes.flat()), made = element("table", { class: "matrix" });
      made.append(element("tr", {}, element("th", {}, "from \\ to"), ...matrix.devices.map((_, n) => element("th", {}, String(n)))));
      matrix.bytes.forEach((row, n) => made.append(element("tr", {}, element("th", {}, `${n}: ${matrix.devices[n]}`), ...row.map((bytes) => element("td", bytes ? { style: `background: hsl(28 70% 50% / ${0.08 + (0.7 * bytes) / most})` } : {}, bytes ? bytesText(bytes) : "")))));
      box.append(element("div", { class: "wide" }, made));
    }
    if (!data.matrices.length) box.append(element("p", { class: "note" }, "not drawn for more than 64 devices"));
  },
};

function causes(data, main) {
  for (const box of main.querySelectorAll(".rows")) {
    box.parentElement.addEventListener("toggle", () => {
      if (box.childElementCount) return;
      const numbers = box.dataset.numbers.split(" ").filter(Boolean).map(Number);
      const rows = numbers.slice(0, 400).map((n) => [n, data.collectives[n]]).map(([n, c]) => [`#${n}`, c.operand, bytesText(c.ring_bytes * c.times), timeText(c.seconds * c.times * 1e6), timeText(c.exposed_seconds * c.times * 1e6), c.source, c.why]);
      box.append(element("div", { class: "wide" }, table([">", "operand", ">bytes", ">time", ">exposed", "at", "why"], rows)));
    });
  }
}

function search(text) {
  const wanted = text.trim().toLowerCase();
  for (const each of document.querySelectorAll("[data-search]")) {
    each.classList.toggle("hidden", Boolean(wanted) && !each.dataset.search.toLowerCase().includes(wanted) && !each.textContent.toLowerCase().includes(wanted));
  }
}

for (const main of document.querySelectorAll("main")) {
  const data = JSON.parse(document.getElementById(`data-${main.dataset.program}`).textContent);
  for (const box of main.querySelectorAll("[data-chart]")) CHARTS[box.dataset.chart](data, box);
  causes(data, main);
}
document.getElementById("search").addEventListener("input", (event) => search(event.target.value));
document.getElementById("fold").addEventListener("click", (event) => {
  const folds = [...document.querySelectorAll(".cause")], unfold = folds.some((each) => !each.open);
  for (const each of folds) each.open = unfold;
  event.target.textContent = unfold ? "Fold all" : "Unfold all";
});
