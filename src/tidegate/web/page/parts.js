// Small parts that views are made of.

import { h, s, tell } from "./dom.js";
import { NOTHING, count, span } from "./format.js";

/** How a state looks: its tone, and a shape, so that the colour is not needed. */
const STATES = {
  RUNNING: ["good", "dot"],
  STARTING: ["info", "ring"],
  RESTARTING: ["warn", "ring"],
  FAILED: ["bad", "cross"],
  DIED: ["bad", "cross"],
  UNREADABLE: ["bad", "cross"],
  UNKNOWN: ["warn", "ring"],
  FINISHED: ["calm", "check"],
  STOPPED: ["calm", "square"],
  CANCELED: ["calm", "square"],
};

const SHAPES = {
  dot: () => s("circle", { cx: 6, cy: 6, r: 4 }),
  ring: () => s("circle", { cx: 6, cy: 6, r: 3.25, class: "hollow" }),
  cross: () => s("path", { d: "M2.5 2.5l7 7m0-7l-7 7", class: "hollow" }),
  check: () => s("path", { d: "M2 6.5l3 3 5-6.5", class: "hollow" }),
  square: () => s("rect", { x: 2.5, y: 2.5, width: 7, height: 7, rx: 1 }),
};

export const tone = (state) => (STATES[state] ?? ["calm", "ring"])[0];

export function pill(text, [look, shape] = STATES[text] ?? ["calm", "ring"], meaning = null) {
  const icon = s("svg", { viewBox: "0 0 12 12", width: 10, height: 10, "aria-hidden": "true" }, SHAPES[shape]());
  return h("span", { class: `pill ${look}`, title: meaning }, icon, text);
}

/** A figure under its name. */
export function tile(name, value, note = null, more = null) {
  return h("div", { class: "tile" },
    h("dt", {}, name),
    h("dd", {}, h("span", { class: "figure" }, value), note && h("span", { class: "note" }, note), more));
}

export const tiles = (...all) => h("dl", { class: "tiles" }, all);

export function section(title, ...content) {
  return h("section", { class: "card", "aria-label": title }, h("h2", {}, title), content);
}

/** A sentence in place of what is not there. */
export const empty = (...text) => h("p", { class: "empty" }, text);

/**
 * A table that becomes a list of cards on a phone; its roles are written out, because there its cells are no table to a
 * browser any more. A column: `[heading, cell of a row, class]`.
 */
export function table(caption, columns, rows, { key = (_, number) => number, none = "There is nothing to show.", row = () => ({}) } = {}) {
  if (!rows.length) return empty(none);
  const cell = (each, [heading, of, look], number) =>
    h(number ? "td" : "th", { class: look, "data-label": heading, role: number ? "cell" : "rowheader", scope: number ? null : "row" },
      h("span", {}, of(each) ?? NOTHING));
  return h("table", { class: "stack", role: "table" },
    h("caption", { class: "sr" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
      columns.map(([heading, , look]) => h("th", { role: "columnheader", scope: "col", class: look }, heading)))),
    h("tbody", { role: "rowgroup" }, rows.map((each, number) =>
      h("tr", { role: "row", "data-key": `r${key(each, number)}`, ...row(each) },
        columns.map((column, place) => cell(each, column, place))))));
}

/** What the server refused: the sentence, what was found, the next step, the code. */
export function problem(error) {
  const { title, detail, code, expected, found, where, next_step: next } = error.problem ?? { detail: error.message };
  const rows = [["Expected", expected], ["Found", found], ["Where", where]].filter(([, text]) => text);
  return h("div", { class: "problem", role: "group", "aria-label": "Problem" },
    h("p", { class: "lead" }, code ? title : detail || title, code && h("code", {}, code)),
    rows.length ? h("dl", { class: "facts" }, rows.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])) : null,
    next && h("p", { class: "next" }, "Next: ", next));
}

/** What a feed has, drawn by `draw`; or why it has nothing. `absent`: the sentence where the server has no such view. */
export function part(feed, draw, absent) {
  if (feed.value !== undefined && feed.value !== null && !feed.problem) return draw(feed.value);
  if (feed.problem?.missing) return empty(absent);
  if (feed.problem) return problem(feed.problem);
  return h("p", { class: "empty waiting" }, "Reading…");
}

/** Small facts, as terms with their values. */
export const facts = (...pairs) =>
  h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value ?? NOTHING)]));

export function copyButton(text, what) {
  const copy = async (event) => {
    const button = event.currentTarget;
    await copied(text);
    button.dataset.done = "yes";
    tell(`Copied: ${what}`);
    setTimeout(() => delete button.dataset.done, 1500);
  };
  return h("button", { type: "button", class: "small copy", onclick: copy, "aria-label": `Copy ${what}` });
}

/** Browsers give no clipboard to pages that came over plain HTTP from another machine. */
async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const holder = h("textarea", { class: "sr", "aria-hidden": "true" });
  holder.value = text;
  document.body.append(holder);
  holder.select();
  document.execCommand("copy");
  holder.remove();
}

/** The steps of an epoch, in their order: name in the history, name on the page, what happens. */
export const PHASES = [
  ["compute", "Compute", "tasks compute and write, nothing is visible yet"],
  ["pre_commit", "Pre-commit", "each task hands its transaction over"],
  ["sync", "Sync", "state and logs are made durable"],
  ["prepared", "Prepared", "the record of all transactions is written"],
  ["commits", "Spark commits", "Spark writes the epoch into its log"],
  ["decided", "Decided", "one record is chosen"],
  ["commit", "Commit", "the sinks make the rows visible"],
  ["done", "Done", "the epoch is recorded as done"],
];

export const measured = (epoch) => PHASES.filter(([name]) => epoch.phases?.[name] !== undefined && epoch.phases[name] !== null);

/** The phases of an epoch as one bar; its text says the same. `longest`: the milliseconds of a bar across all. */
export function phaseBar(epoch, longest, width = 200, height = 10) {
  const parts = measured(epoch);
  const sum = parts.reduce((one, [name]) => one + epoch.phases[name], 0);
  const text = parts.map(([name, label]) => `${label} ${span(epoch.phases[name])}`).join(", ");
  if (!sum) return h("span", { class: "faint" }, "not measured");
  let x = 0;
  const bars = parts.map(([name]) => {
    const wide = (epoch.phases[name] / Math.max(sum, longest)) * width;
    x += wide;
    return s("rect", { x: (x - wide).toFixed(2), y: 0, width: Math.max(0, wide - 0.75).toFixed(2), height, class: `phase-${name}` });
  });
  return s("svg", { class: "phasebar", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": text },
    s("title", {}, text), bars);
}

/** Links to the parts of a view; the open one is told. */
export function tabs(label, all, open) {
  return h("nav", { class: "tabs", "aria-label": label }, h("ul", {}, all.map(([name, title, href, badge]) =>
    h("li", {}, h("a", { href, "aria-current": name === open ? "page" : null }, title, badge ? h("span", { class: "badge" }, count(badge)) : null)))));
}
