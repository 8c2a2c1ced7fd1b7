// Checkpoints as in Flink's page: overview, history, summary, configuration; and the savepoints.

import { at, h } from "../dom.js";
import { NOTHING, count, span, summary, when } from "../format.js";
import { PHASES, empty, facts, measured, part, phaseBar, pill, section, table, tabs, tile, tiles } from "../parts.js";
import { swatch } from "../timeline.js";
import { savepoints } from "./savepoints.js";

const TABS = [["overview", "Overview"], ["history", "History"], ["summary", "Summary"], ["configuration", "Configuration"], ["savepoints", "Savepoints"]];
const ABSENT = "This server does not count checkpoints in Flink's way.";
const NO_HISTORY = "This server keeps no history of epochs.";
const READ = 1000;
const EPOCHS = (path) => ({ epochs: [`${path}/epochs?newest=${READ}`, 5] });
const FLINK = (path) => ({ checkpoints: [`${path}/checkpoints`, 5] });

const FEEDS = {
  overview: (path) => ({ ...FLINK(path), ...EPOCHS(path) }),
  history: EPOCHS,
  summary: EPOCHS,
  configuration: (path) => ({ config: [`${path}/checkpoints/config`, 30] }),
  savepoints: savepoints.feeds,
};
const drawn = (name, open) => ({ overview, history, summary: summed, configuration, savepoints: savepoints.render })[name](open);
const chosen = (parts) => (parts[0] in FEEDS ? parts[0] : "overview");

export const checkpoints = {
  feeds: (path, open) => FEEDS[chosen(open.parts)](path, open),
  render: (open) => [
    tabs("Checkpoints", TABS.map(([name, title]) => [name, title, name === "overview" ? at("jobs", open.job, "checkpoints") : at("jobs", open.job, "checkpoints", name)]), chosen(open.parts)),
    drawn(chosen(open.parts), open),
  ],
};

function overview({ feeds }) {
  return [
    part(feeds.checkpoints, ({ counts, latest }) => [
      tiles(
        tile("Triggered", count(counts.total)), tile("In progress", count(counts.in_progress)), tile("Completed", count(counts.completed)),
        tile("Failed", count(counts.failed)), tile("Restored", count(counts.restored))),
      h("div", { class: "pair" },
        section("Latest savepoint", latest.savepoint ? facts(
          ["Completed", when(latest.savepoint.latest_ack_timestamp / 1000)], ["Took", span(latest.savepoint.end_to_end_duration)],
          ["Format", latest.savepoint.savepointFormat?.toLowerCase()], ["Path", h("code", { class: "break" }, latest.savepoint.external_path ?? NOTHING)])
          : empty("No savepoint in the history.")),
        section("Latest failure", latest.failed ? facts(["At", when((latest.failed.failure_timestamp ?? latest.failed.latest_ack_timestamp) / 1000)], ["Cause", latest.failed.failure_message])
          : empty("No checkpoint has failed in the history.")),
        latest.restored && section("Latest restore", facts(["At", when(latest.restored.restore_timestamp / 1000)], ["From", latest.restored.is_savepoint ? "a savepoint" : "a checkpoint"], ["Path", h("code", { class: "break" }, latest.restored.external_path ?? NOTHING)]))),
    ], ABSENT),
    section("Latest of each query", part(feeds.epochs, ({ epochs }) => {
      const newest = [...new Map([...epochs].reverse().map((each) => [each.query, each])).values()];
      return rows("Latest completed checkpoint of each query", newest);
    }, NO_HISTORY)),
  ];
}

const SHOWN = 100;

const history = ({ feeds, state, redraw, job }) => section("History", part(feeds.epochs, ({ epochs }) => {
  const most = state.most ?? SHOWN;
  const more = () => {
    state.most = most + SHOWN;
    redraw();
  };
  return [
    h("p", { class: "faint" }, `An epoch that is done is a checkpoint: offsets, state and committed sinks together. The newest ${count(Math.min(most, epochs.length))} of ${count(epochs.length)} that were read:`),
    legend(),
    rows("History of checkpoints", epochs.slice(0, most)),
    epochs.length > most && h("button", { onclick: more }, "Show more"),
    epochs.length === READ && h("p", { class: "faint" }, `The page reads the newest ${count(READ)}. `, h("code", {}, `tidegate history ${job} -n 10000`), " has those before them."),
  ];
}, NO_HISTORY));

const legend = () => h("ul", { class: "legend" }, PHASES.map(([name, label, says]) => h("li", { title: says }, swatch(name), label)));

const rows = (caption, epochs) => {
  const usual = summary(epochs.map((each) => each.duration_ms));
  const longest = usual ? Math.min(usual.max, usual.p50 * 3) : 0;
  return listed(caption, epochs, longest);
};

const listed = (caption, epochs, longest) => table(caption, [
  ["Epoch", (each) => h("strong", {}, count(each.epoch)), "main num"],
  ["Query", (each) => each.query],
  ["Status", (each) => (each.duration_ms === null ? pill("recovered", ["info", "ring"]) : pill("completed", ["good", "check"]))],
  ["Done at", (each) => when(each.at)],
  ["Took", (each) => span(each.duration_ms), "num"],
  ["Phases", (each) => phaseBar(each, longest), "bars"],
  ["Rows", (each) => count(each.rows), "num"],
  ["Run", (each) => count(each.run), "num"],
  ["Aborted", (each) => count(each.aborted), "num"],
  ["Redone", (each) => count(each.redone), "num"],
], epochs, { key: (each) => `${each.query} ${each.epoch}`, none: "No checkpoint is completed yet." });

const summed = ({ feeds }) => section("Summary", part(feeds.epochs, ({ epochs }) => {
  if (!epochs.length) return empty("No checkpoint is completed yet.");
  const one = (label, values, shown, mark = null) => ({ label, mark, shown, found: summary(values) });
  const lines = [
    one("End to end duration", epochs.map((each) => each.duration_ms), span),
    ...PHASES.map(([name, label]) => one(label, epochs.filter((each) => measured(each).length).map((each) => each.phases[name]), span, name)).filter((each) => each.found),
    one("Rows", epochs.map((each) => each.rows), (value) => count(Math.round(value))),
  ].filter((each) => each.found);
  const figure = (name) => (each) => each.shown(each.found[name]);
  return [
    h("p", { class: "faint" }, `Over the newest ${count(epochs.length)} epochs.`),
    table("Summary of checkpoints", [
      ["Figure", (each) => [each.mark && swatch(each.mark), each.label], "main"],
      ["Minimum", figure("min"), "num"], ["Average", figure("avg"), "num"], ["50 %", figure("p50"), "num"],
      ["90 %", figure("p90"), "num"], ["99 %", figure("p99"), "num"], ["Maximum", figure("max"), "num"],
    ], lines, { key: (each) => each.label }),
  ];
}, NO_HISTORY));

const YES = (value) => (value === undefined || value === null ? NOTHING : value ? "yes" : "no");

const configuration = ({ feeds, job }) => section("Configuration", part(feeds.config, (config) => [
  facts(
    ["Checkpointing mode", config.mode?.replaceAll("_", " ")],
    ["Interval", config.interval > 0 && config.interval < 9e15 ? span(config.interval) : "as the trigger of each query says"],
    ["Timeout", config.timeout > 0 && config.timeout < 9e15 ? span(config.timeout) : "none"],
    ["Minimum pause between checkpoints", span(config.min_pause)],
    ["Maximum concurrent checkpoints", count(config.max_concurrent)],
    ["Unaligned checkpoints", YES(config.unaligned_checkpoints)],
    config.aligned_checkpoint_timeout ? ["Aligned checkpoint timeout", span(config.aligned_checkpoint_timeout)] : null,
    ["Kept when the job is canceled", config.externalization?.enabled ? YES(!config.externalization.delete_on_cancellation) : "no"],
    ["Tolerable failed checkpoints", count(config.tolerable_failed_checkpoints)],
    ["Checkpoints with finished tasks", YES(config.checkpoints_after_tasks_finish)],
    ["State backend", config.state_backend],
    ["Checkpoint storage", h("code", { class: "break" }, config.checkpoint_storage)]),
  h("p", {}, h("a", { href: at("jobs", job, "settings") }, "All settings, and the place that has set each")),
], "This server does not show the configuration of checkpoints."));
