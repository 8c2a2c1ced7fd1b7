// The savepoints of a folder: path, what is inside, what differs between two, and whether each file is as it was written.

import { at, h, tell } from "../dom.js";
import { NOTHING, bytes, count, seconds, when } from "../format.js";
import { mayAct } from "../actions.js";
import { dispose } from "../disposal.js";
import { copyButton, empty, facts, part, pill, problem, section, table } from "../parts.js";
import { Refused, ask, requestId, untilNextLook } from "../server.js";

const again = () => window.dispatchEvent(new HashChangeEvent("hashchange"));

export const savepoints = {
  feeds: (path, { state }) => ({
    savepoints: [state.dir ? `/savepoints?dir=${encodeURIComponent(state.dir)}` : `/savepoints`, 10],
  }),
  render: (open) => {
    const { state, feeds, job } = open;
    const submit = (event) => {
      event.preventDefault();
      state.dir = event.target.elements.dir.value.trim();
      state.picked = [];
      state.shown = null;
      again();
    };
    return section("Savepoints",
      h("form", { class: "tools", onsubmit: submit },
        h("label", { class: "grow" }, h("span", {}, "Folder "), h("input", { name: "dir", placeholder: "the folder of the settings", autocomplete: "off", spellcheck: "false" })), h("button", {}, "Look")),
      part(feeds.savepoints, (value) => listed(value, open, job), "This server does not list savepoints."));
  },
};

function listed({ savepoints: all, problems = [], folders = [] }, { state, redraw, refresh }, job) {
  state.picked ??= [];
  const pick = (path) => (event) => {
    state.picked = event.target.checked ? [...state.picked, path].slice(-2) : state.picked.filter((each) => each !== path);
    redraw();
  };
  const load = (kind, title, path) => async () => {
    state.shown = { title, kind };
    redraw();
    try {
      state.shown.value = await ask(path);
    } catch (error) {
      state.shown.problem = error;
    }
    tell(title);
    redraw();
  };
  const [one, other] = state.picked;
  return [
    folders.length ? h("p", { class: "faint" }, "In ", folders.map((each, number) => [number ? ", " : null, h("code", {}, each)])) : null,
    problems.map((each) => problem({ problem: each })),
    table("Savepoints", [
      ["Savepoint", (each) => [h("code", { class: "break" }, each.path), copyButton(each.path, "the path")], "main"],
      ["Job", (each) => each.job],
      ["Taken", (each) => when(seconds(each.at)), "once"],
      ["Format", (each) => each.format],
      ["Epochs", (each) => Object.entries(each.epochs ?? {}).map(([query, epoch]) => `${query} ${count(epoch)}`).join(", ")],
      ["Size", (each) => bytes(each.bytes), "num"],
      ["Claimed by", (each) => each.claimed_by],
      ["Compare", (each) => h("input", { type: "checkbox", "aria-label": `Compare ${each.path}`, checked: state.picked.includes(each.path), onchange: pick(each.path) })],
      ["Look", (each) => [
        h("span", { class: "row-acts" },
          h("button", { class: "small", onclick: load("inspect", `Inside ${each.path}`, `/savepoints/details?path=${encodeURIComponent(each.path)}`) }, "Inspect"),
          h("button", { class: "small", onclick: () => verify(each.path, state, redraw) }, "Verify"),
          h("button", { class: "small", onclick: () => dispose(each, refresh) }, "Dispose…"),
          h("a", { class: "button small", href: at("start", job, each.path) }, "Start from")),
      ], "row-end"],
    ], all, { key: (each) => each.path, none: "There is no savepoint in this folder." }),
    h("p", {}, h("button", { disabled: state.picked.length !== 2, onclick: state.picked.length === 2 ? load("diff", "What differs", `/savepoints/diff?one=${encodeURIComponent(one)}&other=${encodeURIComponent(other)}`) : null },
      "Compare the two that are picked")),
    state.shown && h("section", { class: "inner", "aria-label": state.shown.title }, h("h3", {}, state.shown.title), shown(state.shown)),
  ];
}

/** Each file is read again: the answer comes later, by a ticket. A click while it runs shows the same verification, and
 * one after a lost answer asks for it again by its id. */
async function verify(path, state, redraw) {
  state.verifying ??= new Map();
  const known = state.verifying.get(path);
  const mine = known ?? { title: `Verify ${path}`, kind: "verify", id: requestId() };
  state.verifying.set(path, mine);
  state.shown = mine;
  if (known && !known.problem) return redraw();
  Object.assign(mine, { value: { state: "pending" }, problem: null });
  redraw();
  if (!(await mayAct().catch(() => false))) {
    state.verifying.delete(path);
    if (state.shown === mine) state.shown = null;
    return redraw();
  }
  try {
    mine.value = await ask("/savepoints/verify", { method: "POST", body: { path, id: mine.id } });
    while (mine.value.state === "pending") {
      await untilNextLook();
      mine.value = await ask(`/savepoints/verify/${encodeURIComponent(mine.id)}`);
      redraw();
    }
    state.verifying.delete(path);
  } catch (error) {
    if (error instanceof Refused) state.verifying.delete(path);
    mine.problem = error instanceof Refused ? error : { problem: { detail: "The server does not answer. Verify again: it is done once, however often it is asked." } };
  }
  tell(`${mine.title}: ${mine.value.state}`);
  redraw();
}

function shown({ kind, value, problem: wrong }) {
  if (wrong) return problem(wrong);
  if (!value) return h("p", { class: "empty waiting" }, "Reading…");
  return { inspect, diff, verify: verified }[kind](value);
}

const inspect = (value) => [
  facts(["Id", h("code", {}, value.id)], ["Job", `${value.job}, generation ${value.generation ?? NOTHING}`], ["Files", count(value.files)], ["Claimed by", value.claimed_by ?? "no job"]),
  table("Queries in the savepoint", [
    ["Query", (query) => h("strong", {}, query.query), "main"],
    ["Epoch", (query) => count(query.epoch), "num"],
    ["State", (query) => bytes(query.state_bytes), "num"],
    ["Backend", (query) => query.backend],
    ["Partitions", (query) => count(query.partitions), "num"],
    ["Sources end at", (query) => Object.entries(query.sources ?? {}).map(([uid, offset]) => h("span", { class: "under" }, `${uid}: `, h("code", { class: "break" }, typeof offset === "string" ? offset : JSON.stringify(offset)))), "long"],
    ["Operators", (query) => Object.values(query.operators ?? {}).map((each) => h("span", { class: "under" }, `${each.uid ?? each.name}: ${count(each.state_rows)} rows, ${bytes(each.state_bytes)}`)), "long"],
  ], value.queries ?? [], { key: (query) => query.query, none: "It holds no query." }),
];

const text = (value) => (value === null || value === undefined ? NOTHING : typeof value === "object" ? JSON.stringify(value) : String(value));

const diff = (value) => table("Differences", [
  ["What", (each) => (Array.isArray(each.what) ? each.what.join(" / ") : each.what), "main"],
  ["First", (each) => h("code", { class: "break" }, text(each.one))],
  ["Second", (each) => h("code", { class: "break" }, text(each.other))],
], value.differences ?? [], { none: "The two hold the same." });

const TONES = { pending: ["info", "ring"], done: ["good", "check"], failed: ["bad", "cross"] };

function verified(value) {
  return [
    h("p", {}, pill(value.state ?? "done", TONES[value.state] ?? ["calm", "ring"]), value.files ? ` ${count(value.files)} files were read.` : null),
    value.state === "pending" ? h("progress", { "aria-label": "Under way" }) : null,
    (value.problems ?? []).map((each) => problem({ problem: each })),
    value.whole && empty("Each file is as it was written."),
  ];
}
