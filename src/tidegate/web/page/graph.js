// The graph of a job: sources, queries, channels and sinks in layers, joined by curves. From left to right, and from
// top to bottom where the page is narrow.

import { h, s } from "./dom.js";
import { count, rate } from "./format.js";
import { table } from "./parts.js";

const WIDEST = 216;
const NARROWEST = 154;
const HIGH = 84;
const GAP_ALONG = 40;
const GAP_ACROSS = 20;
const NARROW = 700;
const KINDS = { source: "Source", query: "Query", channel: "Channel", sink: "Sink" };

/** The layer of each node: one more than the deepest node before it. A circle is cut where it is met again. */
export function layers(nodes, edges) {
  const before = new Map(nodes.map((node) => [node.id, []]));
  for (const edge of edges) if (before.has(edge.to) && before.has(edge.from)) before.get(edge.to).push(edge.from);
  const depth = new Map();
  const open = new Set();
  const visit = (id) => {
    if (depth.has(id)) return depth.get(id);
    if (open.has(id)) return 0;
    open.add(id);
    const found = before.get(id).reduce((most, each) => Math.max(most, visit(each) + 1), 0);
    open.delete(id);
    depth.set(id, found);
    return found;
  };
  nodes.forEach((node) => visit(node.id));
  const last = Math.max(0, ...depth.values());
  for (const node of nodes) if (node.kind === "sink") depth.set(node.id, Math.max(depth.get(node.id), last));
  const found = Array.from({ length: last + 1 }, () => []);
  for (const node of nodes) found[depth.get(node.id)].push(node);
  return ordered(found, before);
}

/** Within a layer by the middle of what comes before, so that few curves cross. */
function ordered(found, before) {
  const place = new Map();
  for (const layer of found) {
    const middle = (node) => {
      const places = before.get(node.id).map((id) => place.get(id) ?? 0);
      return places.length ? places.reduce((one, other) => one + other, 0) / places.length : layer.indexOf(node);
    };
    const keys = new Map(layer.map((node) => [node, middle(node)]));
    layer.sort((one, other) => keys.get(one) - keys.get(other));
    layer.forEach((node, number) => place.set(node.id, number - (layer.length - 1) / 2));
  }
  return found;
}

export function graph({ nodes, edges }, barriers, width) {
  if (!nodes.length) return null;
  const down = width < NARROW;
  const found = layers(nodes, edges);
  const most = Math.max(...found.map((layer) => layer.length));
  const fits = down ? (width + GAP_ACROSS) / most - GAP_ACROSS : (width + GAP_ALONG) / found.length - GAP_ALONG;
  const wide = Math.max(NARROWEST, Math.min(WIDEST, Math.floor(fits) - 2));
  const [along, across] = down ? [HIGH, wide] : [wide, HIGH];
  const gap = down ? 34 : GAP_ALONG;
  const long = found.length * (along + gap) - gap;
  const broad = most * (across + GAP_ACROSS) - GAP_ACROSS;
  const spot = new Map();
  found.forEach((layer, depth) => {
    const used = layer.length * (across + GAP_ACROSS) - GAP_ACROSS;
    layer.forEach((node, number) => {
      const far = depth * (along + gap);
      const aside = (broad - used) / 2 + number * (across + GAP_ACROSS);
      spot.set(node.id, down ? [aside, far] : [far, aside]);
    });
  });
  const [w, t] = down ? [broad, long] : [long, broad];
  const told = `Graph: ${nodes.length} nodes, ${edges.length} edges. The table below has the same.`;
  return [
    h("div", { class: "graph", tabindex: 0, role: "group", "aria-label": "Graph of the job" },
      s("svg", { viewBox: `-2 -2 ${w + 4} ${t + 4}`, width: w + 4, height: t + 4, role: "img", "aria-label": told },
        s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
          s("path", { d: "M0 0L8 4L0 8Z" }))),
        edges.filter((edge) => spot.has(edge.from) && spot.has(edge.to)).map((edge) => curve(spot.get(edge.from), spot.get(edge.to), wide, down)),
        nodes.map((node) => box(node, spot.get(node.id), wide, barriers)))),
    h("details", { class: "more" }, h("summary", {}, "The graph as a table"),
      table("Nodes of the graph", [
        ["Name", (node) => node.name],
        ["Kind", (node) => KINDS[node.kind] ?? node.kind],
        ["What it is", (node) => node.told],
        ["Goes to", (node) => edges.filter((edge) => edge.from === node.id).map((edge) => nodes.find((each) => each.id === edge.to)?.name).join(", ")],
        ["Rows", (node) => rate(node.rows_per_second), "num"],
        ["Lag", (node) => node.lag],
        ["Epoch", (node) => (node.epoch >= 0 ? count(node.epoch) : null), "num"],
        ["Barrier", (node) => barrierAt(node, barriers)[0]],
      ], nodes, { key: (node) => node.id })),
  ];
}

function curve([x1, y1], [x2, y2], wide, down) {
  const [a, b, c, d] = down ? [x1 + wide / 2, y1 + HIGH, x2 + wide / 2, y2 - 2] : [x1 + wide, y1 + HIGH / 2, x2 - 2, y2 + HIGH / 2];
  const bend = down ? `${a} ${(b + d) / 2} ${c} ${(b + d) / 2}` : `${(a + c) / 2} ${b} ${(a + c) / 2} ${d}`;
  return s("path", { class: "edge", d: `M${a} ${b}C${bend} ${c} ${d}`, "marker-end": "url(#tip)" });
}

/** Where the barrier of the checkpoint is that is under way; else what the last one was for this node. */
function barrierAt(node, barriers) {
  const taken = node.kind === "query" ? barriers?.taken?.[node.query] : null;
  if (node.behind_barrier === true) return [node.kind === "channel" ? "barrier written" : "barrier passed"];
  if (node.behind_barrier === false) return [node.kind === "channel" ? "barrier to come" : "waits for barrier"];
  return taken ? [`barrier ${barriers.number}`, `barrier ${barriers.number} after ${count(taken.after_ms)} ms`] : [];
}

function box(node, [x, y], wide, barriers) {
  const figures = [
    node.rows_per_second === null ? null : rate(node.rows_per_second),
    node.lag,
    node.epoch >= 0 && node.epoch !== null ? `epoch ${count(node.epoch)}` : null,
  ].filter(Boolean).join(" · ");
  const [barrier, more] = barrierAt(node, barriers);
  return s("g", { class: `node ${node.kind}`, transform: `translate(${x} ${y})` },
    s("title", {}, [KINDS[node.kind], node.name, node.told, figures, more ?? barrier].filter(Boolean).join("\n")),
    s("rect", { class: "frame", width: wide, height: HIGH, rx: 6 }),
    s("path", { class: "edge-mark", d: `M0 6a6 6 0 0 1 6-6v${HIGH}a6 6 0 0 1-6-6Z` }),
    s("text", { x: 16, y: 18, class: "kind" }, KINDS[node.kind] ?? node.kind),
    barrier && s("text", { x: wide - 10, y: 18, class: "barrier", "text-anchor": "end" }, barrier),
    barrier && node.behind_barrier !== false && s("path", { class: "barrier-mark", d: `M${wide - 3} 8v12` }),
    s("text", { x: 16, y: 37, class: "name" }, cut(node.name, Math.floor((wide - 24) / 8.2))),
    s("text", { x: 16, y: 54, class: "told" }, cut(node.told === node.name || node.told === node.kind ? "" : node.told, Math.floor((wide - 24) / 6.4))),
    s("text", { x: 16, y: 73, class: "figures" }, cut(figures, Math.floor((wide - 24) / 6.6))));
}

const cut = (text, most) => (text && text.length > most ? `${text.slice(0, most - 1)}…` : (text ?? ""));
