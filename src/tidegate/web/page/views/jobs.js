// All jobs of the storage; those that need attention come first, as the server has sorted them.

import { at, h } from "../dom.js";
import { ago, count, plural, rate, span, when } from "../format.js";
import { empty, part, pill, table, tone } from "../parts.js";
import { sparkline } from "../sparkline.js";

const TONES = [["bad", "need help"], ["warn", "restarting or unclear"], ["info", "starting"], ["good", "running"], ["calm", "ended"]];

export const jobs = {
  name: "jobs",
  title: () => "Jobs",
  feeds: () => ({ cards: ["/jobs/cards", 2] }),
  events: () => ({
    path: "/events",
    instead: "cards",
    heard: (name, data, { cards }) => name === "cards" && cards.feed(data),
  }),
  render: ({ feeds: { cards }, state, redraw }) => [
    h("div", { class: "head" }, h("h1", { tabindex: -1 }, "Jobs"), cards.value && h("code", { class: "path" }, cards.value.storage)),
    part(cards, (value) => board(value.jobs, state, redraw), "This server does not list jobs."),
  ],
};

function board(all, state, redraw) {
  if (!all.length) return empty("There is no job in this storage yet. ", h("code", {}, "tidegate run"), " starts one.");
  const wanted = (state.filter ?? "").toLowerCase();
  const shown = all.filter((job) => (!state.tone || tone(job.state) === state.tone) && `${job.name} ${job.state} ${job.problem}`.toLowerCase().includes(wanted));
  const filter = (event) => {
    state.filter = event.target.value;
    redraw();
  };
  const only = (name) => () => {
    state.tone = state.tone === name ? null : name;
    redraw();
  };
  return [
    h("div", { class: "tools" },
      h("div", { class: "chips", role: "group", "aria-label": "Show only" }, TONES.map(([name, text]) => {
        const found = all.filter((job) => tone(job.state) === name).length;
        return found ? h("button", { class: `chip ${name}`, "data-key": name, "aria-pressed": state.tone === name ? "true" : "false", onclick: only(name) }, h("b", {}, count(found)), text) : null;
      })),
      h("input", { type: "search", placeholder: "Filter jobs", "aria-label": "Filter jobs", oninput: filter })),
    h("section", { class: "card flush", "aria-label": "List of jobs" },
      table("Jobs, those that failed first", [
        ["Job", name, "main"],
        ["State", (job) => pill(job.state, undefined, job.meaning)],
        ["Since", (job) => (job.since ? h("time", { title: when(job.since) }, ago(job.since)) : null), "once"],
        ["Rows", (job) => (job.alive ? rate(job.rows_per_second) : null), "num"],
        ["Newest epochs", (job) => sparkline(job.rates), "sparks"],
        ["Lag", (job) => (job.alive ? job.lag : null)],
        ["Last checkpoint", checkpoint, "once"],
        ["Restarts", (job) => count(job.restarts), "num"],
      ], shown, { key: (job) => job.name, none: "No job fits the filter.", row: (job) => ({ class: tone(job.state) }) })),
    h("p", { class: "faint foot" }, `${plural(shown.length, "job")} of ${count(all.length)}`),
  ];
}

const name = (job) => [
  h("a", { class: "name", href: at("jobs", job.name) }, job.name),
  job.problem ? h("span", { class: "trouble" }, job.problem) : job.queries > 1 ? h("span", { class: "faint under" }, plural(job.queries, "query", "queries")) : null,
];

const checkpoint = ({ last_checkpoint: last }) => last && h("span", { title: `epoch ${last.epoch} of ${last.query}, ${when(last.at)}` },
  ago(last.at), h("span", { class: "faint under" }, `epoch ${count(last.epoch)} · ${span(last.duration_ms)}`));
