// The failures of a job, each with its cause, the place, what to do, and the restart that followed.

import { h } from "../dom.js";
import { ago, count, plural, span, when } from "../format.js";
import { empty, facts, part, section } from "../parts.js";

export const exceptions = {
  feeds: (path) => ({ failures: [`${path}/failures`, 5] }),
  render: ({ feeds }) => section("Exceptions", part(feeds.failures, ({ failures }) => (failures.length ? [
    h("p", { class: "faint" }, `${plural(failures.length, "failure")} in the history, the newest first`),
    h("ol", { class: "failures" }, failures.map((each) => h("li", { "data-key": `${each.at} ${each.code}` },
      h("p", { class: "lead" }, h("time", {}, when(each.at)), h("span", { class: "faint" }, ago(each.at)), each.code && h("code", { class: "code" }, each.code),
        each.query && h("span", { class: "faint" }, [each.query, each.epoch === null ? null : `epoch ${count(each.epoch)}`, each.run === null ? null : `run ${each.run}`].filter(Boolean).join(" · "))),
      h("p", { class: "what" }, each.what),
      facts(each.where && ["Where", each.where], ...Object.entries(each.details ?? {}), each.remedy && ["What to do", each.remedy],
        ["Then", each.restart_in_seconds === null ? "no restart followed" : `a restart followed after ${span(each.restart_in_seconds * 1000)}`])))),
  ] : empty("This job has not failed, as far as its history goes back.")), "This server does not show failures.")),
};
