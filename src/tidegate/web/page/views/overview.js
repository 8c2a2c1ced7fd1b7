// A job now: its figures, its graph, its epochs in time, its queries.

import { h } from "../dom.js";
import { NOTHING, ago, bytes, count, plural, rate, span, when } from "../format.js";
import { graph } from "../graph.js";
import { facts, part, section, table, tile, tiles } from "../parts.js";
import { sparkline } from "../sparkline.js";
import { shares, swatch, timeline } from "../timeline.js";

export const overview = {
  feeds: (path) => ({ epochs: [`${path}/epochs?newest=200`, 5], axis: [`${path}/events-on-axis`, 10] }),
  render: (open) => part(open.feeds.live, (live) => [
    figures(live),
    section("Graph", graph(live.graph, live.barriers, open.width) ?? h("p", { class: "empty" }, "The job has not started: nothing is known of its queries.")),
    section("Epochs", part(open.feeds.epochs, ({ epochs }) => times(epochs, open.feeds.axis.value?.events ?? [], open, live), "This server keeps no history of epochs.")),
    section("Queries", queries(live.queries)),
    live.barriers && section(`Checkpoint ${live.barriers.number} across the queries`, barriers(live)),
    live.driver && section("Driver", driver(live)),
  ], "This server does not show single jobs."),
};

function figures({ card, queries: all, drained_at: drained }) {
  const last = card.last_checkpoint;
  const waiting = all.reduce((sum, query) => sum + query.open_transactions, 0);
  const dead = all.reduce((sum, query) => sum + query.dead_letters, 0);
  return tiles(
    tile("Rows", card.alive ? rate(card.rows_per_second) : NOTHING, null, sparkline(card.rates, 120, 28)),
    tile("Lag", card.lag ?? NOTHING, card.lag ? null : "not reported"),
    tile("Last checkpoint", last ? ago(last.at) : NOTHING, last && `epoch ${count(last.epoch)} in ${span(last.duration_ms)}`),
    tile("Open transactions", card.alive ? count(waiting) : NOTHING, "of all queries"),
    tile("Restarts", count(card.restarts), "in the history"),
    dead ? tile("Dead letters", count(dead), "rows set aside") : null,
    drained && tile("Drained", when(drained), "it cannot go on"));
}

function times(epochs, events, { state, redraw, width }, { queries: all }) {
  if (!epochs.length) return h("p", { class: "empty" }, "No epoch is done yet.");
  state.changed = redraw;
  const shown = state.query ? epochs.filter((each) => each.query === state.query) : epochs;
  const found = shares(shown);
  const choose = (event) => {
    state.query = event.target.value;
    state.at = null;
    redraw();
  };
  return [
    all.length > 1 && h("div", { class: "tools" }, h("label", {}, h("span", {}, "Query "), h("select", { onchange: choose },
      h("option", { value: "" }, "All"), all.map((query) => h("option", { value: query.uid }, query.uid))))),
    timeline(shown, events, width, state),
    found.length ? [
      h("h3", {}, "Where the time goes"),
      h("p", { class: "faint" }, `Mean of the newest ${plural(shown.length, "epoch")}`),
      h("ul", { class: "shares" }, found.map((each) => h("li", {}, swatch(each.name), h("span", { class: "label" }, each.label),
        h("span", { class: "faint says" }, each.says), h("b", {}, span(each.ms)), h("span", { class: "share" }, `${(each.share * 100).toFixed(each.share < 0.1 ? 1 : 0)} %`)))),
    ] : null,
  ];
}

const queries = (all) => table("Queries of the job", [
  ["Query", (query) => h("strong", {}, query.uid), "main"],
  ["Epoch done", (query) => (query.finished >= 0 ? count(query.finished) : null), "num"],
  ["In work", (query) => (query.epoch >= 0 ? count(query.epoch) : null), "num"],
  ["Rows", (query) => rate(query.rows_per_second), "num"],
  ["Epoch takes", (query) => span(query.epoch_ms), "num"],
  ["Lag", (query) => query.lag],
  ["Last done", (query) => query.last_done_at && h("time", { title: when(query.last_done_at) }, ago(query.last_done_at))],
  ["Open", (query) => count(query.open_transactions), "num"],
  ["Dead letters", (query) => count(query.dead_letters), "num"],
  ["Run", (query) => (query.run === null ? null : `${count(query.run)} of generation ${query.generation}`)],
], all, { key: (query) => query.uid, none: "No query has started yet." });

const barriers = ({ barriers: found, retained }) => [
  facts(["Taken", when(found.at)], ["Alignment", found.alignment], ["Kept", retained.map((each) => count(each)).join(", ")]),
  table("How each query took part", [
    ["Query", ([query]) => h("strong", {}, query), "main"],
    ["Barrier after", ([, taken]) => span(taken.after_ms), "num"],
    ["Aligned for", ([, taken]) => span(taken.aligned_ms), "num"],
    ["Rows held", ([, taken]) => count(taken.rows_held), "num"],
    ["Bytes held", ([, taken]) => bytes(taken.bytes_held), "num"],
    ["Rows in flight", ([, taken]) => count(taken.rows_in_flight), "num"],
  ], Object.entries(found.taken), { key: ([query]) => query }),
];

const driver = ({ driver: { host, process, started_at: started, at, application } }) =>
  facts(["Host", host], ["Process", h("code", {}, process)], ["Started", when(started)], ["Last report", ago(at)], application && ["Spark application", h("code", {}, application)]);
