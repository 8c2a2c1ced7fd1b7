// The rates of the newest epochs as one small line. It is decoration beside a figure: a screen reader skips it.

import { s } from "./dom.js";

export function sparkline(values, width = 96, height = 24) {
  const frame = { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" };
  if (values.length < 2) return s("svg", frame);
  const top = Math.max(...values) || 1;
  const points = values.map((value, number) => [
    (number / (values.length - 1)) * (width - 4) + 2,
    height - 3 - (Math.max(0, value) / top) * (height - 6),
  ]);
  const line = points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
  const [endX, endY] = points.at(-1);
  return s("svg", frame,
    s("path", { class: "area", d: `M2 ${height - 1}L${line}L${endX.toFixed(1)} ${height - 1}Z` }),
    s("path", { class: "line", d: `M${line}` }),
    s("circle", { cx: endX.toFixed(1), cy: endY.toFixed(1), r: 2 }));
}
