// Sinks with what their readers see, and the transactions that wait, each with what would be done with it.

import { h } from "../dom.js";
import { NOTHING, count, span } from "../format.js";
import { part, pill, problem, section, table, tile, tiles } from "../parts.js";

const VERDICTS = { commit: ["good", "check"], abort: ["warn", "cross"], "in use": ["info", "dot"], foreign: ["calm", "ring"], unknown: ["bad", "ring"] };

export const sinks = {
  feeds: (path) => ({ sinks: [`${path}/sinks`, 5], transactions: [`${path}/transactions`, 5] }),
  render: ({ feeds }) => [
    part(feeds.sinks, (value) => [
      tiles(
        tile("Epochs done", count(value.epochs_done), "since the history begins"),
        tile("Committed", count(value.committed), "transactions, since the history begins"),
        tile("Aborted", count(value.aborted), "transactions that did not count"),
        tile("Redone", count(value.redone), "written again from the journal"),
        tile("Shown again", count(value.shown_again), "only where a sink cannot tell")),
      section("Sinks", table("Sinks of the job", [
        ["Sink", (sink) => [h("strong", {}, sink.uid), h("span", { class: "faint under" }, sink.told)], "main"],
        ["Query", (sink) => sink.query],
        ["Kind", (sink) => h("code", {}, sink.kind)],
        ["Level", (sink) => sink.level],
        ["Readers see", (sink) => sink.guarantee || NOTHING, "long"],
        ["Open", (sink) => count(sink.open_transactions), "num"],
      ], value.sinks, { key: (sink) => `${sink.query}/${sink.uid}`, none: "No start of this job has described its sinks yet." })),
    ], "This server does not show sinks."),
    section("Transactions that wait", part(feeds.transactions, (value) => [
      value.problems.map((each) => problem({ problem: each })),
      table("Transactions that wait", [
        ["Transaction", (each) => [h("code", { class: "break" }, each.name), h("span", { class: "faint under" }, each.target)], "main"],
        ["Sink", (each) => `${each.query} / ${each.sink}`],
        ["Epoch", (each) => (each.epoch === null ? null : `${count(each.epoch)}, run ${each.run ?? NOTHING}`)],
        ["Rows", (each) => count(each.rows), "num"],
        ["Age", (each) => (each.age_seconds === null ? null : span(each.age_seconds * 1000)), "num"],
        ["Ledger", (each) => each.named],
        ["Sink says", (each) => each.seen],
        ["Verdict", (each) => [pill(each.verdict, VERDICTS[each.verdict]), h("span", { class: "faint under long" }, each.would.replaceAll("`", ""))], "long"],
      ], value.transactions, { key: (each) => `${each.sink}/${each.name}`, none: "No transaction waits: everything that was prepared is committed or aborted." }),
    ], "This server does not list transactions.")),
  ],
};
