// Epochs side by side, in the order of time, each a bar of its phases; failures, restarts and savepoints stand between
// them. One control chooses what is told below: by the pointer, or with the arrow keys.

import { h, s } from "./dom.js";
import { clock, count, span, summary, when } from "./format.js";
import { PHASES, measured } from "./parts.js";

const HEIGHT = 176;
const TOP = 22;
const LEFT = 54;
const BOTTOM = 24;
const SLOT = 9;
const EVENTS = { start: "Start", failure: "Failure", restart: "Failure and restart", kill: "Driver ended without a report", skip: "Lost records skipped", savepoint: "Savepoint", stop: "Stop" };
const GLYPHS = {
  start: "M-4 -5L5 0L-4 5Z",
  failure: "M-4 -4L4 4M4 -4L-4 4",
  restart: "M4 -1A4.5 4.5 0 1 0 3 3.2M4.5 -5V-0.8H0.3",
  skip: "M-4 -4V4L0 0ZM1 -4V4L5 0Z",
  kill: "M1.5 -6L-4 1H0L-1.5 6L4 -1H0Z",
  savepoint: "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
  stop: "M-4 -4H4V4H-4Z",
};

/** What stands on the axis, the oldest first: epochs, events, and gaps where nothing was done for long. */
export function axis(epochs, events, most) {
  const shown = epochs.slice(0, most);
  const oldest = shown.length === epochs.length ? -Infinity : shown.at(-1).at;
  const all = [
    ...shown.map((epoch) => ({ at: epoch.at, epoch })),
    ...events.filter((each) => each.at >= oldest).map((event) => ({ at: event.at, event })),
  ].sort((one, other) => one.at - other.at).slice(-most);
  const steps = all.slice(1).map((each, number) => each.at - all[number].at);
  const long = Math.max(30, 8 * (summary(steps)?.p50 ?? 0));
  return all.flatMap((each, number) => (number && each.at - all[number - 1].at > long
    ? [{ at: each.at, gap: each.at - all[number - 1].at }, each] : [each]));
}

/** `state.at`: the time of what is chosen; the newest epoch if nothing is. `state.changed()` draws anew. */
export function timeline(epochs, events, width, state) {
  const room = Math.max(240, width) - LEFT - 6;
  const items = axis(epochs, events, Math.floor(room / SLOT) - 6);
  const share = (each) => (each.gap ? 4 : each.event ? 1.5 : 1);
  const slots = items.reduce((sum, each) => sum + share(each), 0);
  const slot = Math.min(22, room / Math.max(slots, 1));
  const top = ceiling(items);
  let x = LEFT;
  for (const each of items) {
    each.wide = slot * share(each);
    each.x = x;
    x += each.wide;
  }
  const choices = items.filter((each) => !each.gap);
  const chosen = choices.find((each) => each.at === state.at) ?? choices.findLast((each) => each.epoch) ?? choices.at(-1);
  if (!chosen) return [];
  const choose = (each) => {
    if (!each || each === chosen) return;
    state.at = each === choices.at(-1) && each.epoch ? null : each.at;
    state.changed();
  };
  const move = (event) => {
    const here = choices.indexOf(chosen);
    const to = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, PageDown: here - 10, PageUp: here + 10, Home: 0, End: choices.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(choices[Math.max(0, Math.min(choices.length - 1, to))]);
  };
  const under = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * width;
    const near = (each) => Math.abs(each.x + each.wide / 2 - place);
    return choices.reduce((best, each) => (near(each) < near(best) ? each : best), choices[0]);
  };
  const point = (event) => choose(under(event));
  return [
    h("div", {
      class: "timeline", role: "slider", tabindex: 0, "aria-label": "Epochs in time", "aria-orientation": "horizontal",
      "aria-valuemin": 1, "aria-valuemax": choices.length, "aria-valuenow": choices.indexOf(chosen) + 1, "aria-valuetext": sentence(chosen),
      onkeydown: move, onpointermove: (event) => event.pointerType === "mouse" && point(event), onclick: point,
    }, drawn(items, chosen, width, top)),
    readout(chosen),
  ];
}

/** The upper end of the scale: above nearly all epochs. A few slow ones are cut off, and marked. */
function ceiling(items) {
  const found = summary(items.map((each) => each.epoch?.duration_ms));
  if (!found) return 100;
  const wanted = Math.max(1, Math.min(found.max, Math.max(found.p90 * 2.5, found.p50 * 4)));
  const step = 10 ** Math.floor(Math.log10(wanted));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((each) => each * step).find((each) => each >= wanted * 0.999) ?? wanted;
}

function drawn(items, chosen, width, top) {
  const floor = HEIGHT - BOTTOM;
  const scale = (floor - TOP) / top;
  const lines = [0, 0.5, 1].map((share) => {
    const y = floor - share * top * scale;
    return [s("line", { class: "grid", x1: LEFT, x2: width, y1: y, y2: y }),
      s("text", { class: "tick", x: LEFT - 8, y: y + 3.5, "text-anchor": "end" }, share ? span(share * top) : "0")];
  });
  return s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" },
    lines,
    s("rect", { class: "chosen", x: chosen.x, y: TOP - 18, width: chosen.wide, height: floor - TOP + 18, rx: 2 }),
    items.map((each) => (each.epoch ? bar(each, floor, scale, top) : each.gap ? gap(each, floor) : mark(each, floor))),
    ticks(items, floor, width));
}

function bar({ x, wide, epoch }, floor, scale, top) {
  const space = wide > 5 ? 1.5 : 0.5;
  const frame = { x: (x + space / 2).toFixed(2), width: (wide - space).toFixed(2) };
  const parts = measured(epoch);
  const length = epoch.duration_ms ?? 0;
  if (!parts.length || !length) {
    const high = length ? Math.min(length, top) * scale : 6;
    return s("rect", { ...frame, y: (floor - high).toFixed(2), height: high.toFixed(2), class: length ? "whole" : "recovered" });
  }
  const sum = parts.reduce((one, [name]) => one + epoch.phases[name], 0);
  const shrink = Math.min(1, top / Math.max(sum, length));
  let y = floor;
  const bars = parts.map(([name]) => {
    const high = epoch.phases[name] * shrink * scale;
    y -= high;
    return high < 0.2 ? null : s("rect", { ...frame, y: y.toFixed(2), height: high.toFixed(2), class: `phase-${name}` });
  });
  const cutOff = shrink < 1 && s("path", { class: "cut", d: `M${x + 1} ${y - 2}l${wide / 2 - 1} -5l${wide / 2 - 1} 5Z` });
  return s("g", {}, bars, cutOff);
}

function mark({ x, wide, event }, floor) {
  const middle = x + wide / 2;
  return s("g", { class: `event ${event.kind}` },
    s("line", { x1: middle, x2: middle, y1: TOP - 2, y2: floor }),
    s("path", { d: GLYPHS[event.kind] ?? GLYPHS.savepoint, transform: `translate(${middle} ${TOP - 10})` }));
}

function gap({ x, wide, gap: seconds }, floor) {
  const middle = x + wide / 2;
  return s("g", { class: "gap" },
    s("path", { d: `M${middle - 3} ${floor + 4}l3 -8m0 8l3 -8` }),
    wide > 24 && s("text", { x: middle, y: floor - 10, "text-anchor": "middle", class: "tick" }, span(seconds * 1000).split(" ").slice(0, 2).join(" ")));
}

function ticks(items, floor, width) {
  let free = LEFT;
  return items.filter((each) => each.epoch).map((each) => {
    if (each.x < free || each.x + 50 > width) return null;
    free = each.x + 110;
    return [s("line", { class: "grid", x1: each.x + each.wide / 2, x2: each.x + each.wide / 2, y1: floor, y2: floor + 4 }),
      s("text", { class: "tick", x: each.x, y: floor + 17 }, clock(each.at))];
  });
}

function sentence({ epoch, event }) {
  if (event) return `${EVENTS[event.kind] ?? event.kind} at ${when(event.at)}: ${event.text}`;
  const phases = measured(epoch).map(([name, label]) => `${label} ${span(epoch.phases[name])}`).join(", ");
  return `Epoch ${epoch.epoch} of ${epoch.query}, ${when(epoch.at)}, ${span(epoch.duration_ms)}, ${count(epoch.rows)} rows. ${phases}`;
}

function readout({ epoch, event }) {
  if (event) {
    return h("div", { class: `readout ${event.kind}` },
      h("p", { class: "lead" }, h("strong", {}, EVENTS[event.kind] ?? event.kind), h("span", { class: "faint" }, when(event.at)), event.query && h("span", { class: "faint" }, event.query)),
      h("p", {}, event.text));
  }
  const more = [
    [epoch.aborted, "transactions aborted"], [epoch.redone, "transactions done again"], [epoch.shown_again, "rows shown again"],
  ].filter(([number]) => number).map(([number, text]) => `${count(number)} ${text}`);
  return h("div", { class: "readout" },
    h("p", { class: "lead" }, h("strong", {}, `Epoch ${count(epoch.epoch)}`), h("span", {}, epoch.query), h("span", {}, span(epoch.duration_ms)),
      h("span", {}, `${count(epoch.rows)} rows`), typeof epoch.read === "number" && h("span", { class: "faint" }, `${count(epoch.read)} read`), h("span", { class: "faint" }, `run ${epoch.run}`), h("span", { class: "faint" }, when(epoch.at)),
      epoch.duration_ms === null && h("span", { class: "faint" }, "completed by recovery"), more.map((text) => h("span", { class: "warn-text" }, text))),
    h("ul", { class: "legend" }, measured(epoch).map(([name, label]) =>
      h("li", {}, swatch(name), label, h("b", {}, span(epoch.phases[name]))))),
    !measured(epoch).length && h("p", { class: "faint" }, "The phases of this epoch were not measured."));
}

export const swatch = (phase) => s("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" }, s("rect", { width: 10, height: 10, rx: 2, class: `phase-${phase}` }));

/** Where the time of these epochs goes: each phase with its mean and its share. */
export function shares(epochs) {
  const known = epochs.filter((epoch) => measured(epoch).length);
  const mean = (name) => known.reduce((sum, epoch) => sum + (epoch.phases[name] ?? 0), 0) / Math.max(1, known.length);
  const means = PHASES.map(([name, label, says]) => ({ name, label, says, ms: mean(name) }));
  const sum = means.reduce((one, each) => one + each.ms, 0);
  return sum ? means.map((each) => ({ ...each, share: each.ms / sum })) : [];
}
