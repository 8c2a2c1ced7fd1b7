// Sources with the lag of their readers, their offsets, and what they skipped.

import { h } from "../dom.js";
import { count, when } from "../format.js";
import { part, section, table } from "../parts.js";

export const sources = {
  feeds: (path) => ({ sources: [`${path}/sources`, 5] }),
  render: ({ feeds }) => section("Sources", part(feeds.sources, (value) => table("Sources of the job", [
    ["Source", (source) => [h("strong", {}, source.uid), h("span", { class: "faint under" }, source.told)], "main"],
    ["Kind", (source) => h("code", {}, source.kind)],
    ["Lag", (source) => byQuery(source.lag)],
    ["Read up to", (source) => byQuery(source.offsets, offsets), "long"],
    ["Skipped", (source) => skipped(source.skipped ?? []), "long"],
  ], value.sources, { key: (source) => source.uid, none: "No start of this job has described its sources yet." }), "This server does not show sources.")),
};

/** By query, one text or several lines. The name of a query is shown only beside others. */
function byQuery(value, shown = (lines) => lines) {
  const all = Object.entries(value ?? {});
  if (all.length <= 1) return all.length ? shown(all[0][1]) : null;
  return all.map(([query, lines]) => h("span", { class: "under" }, h("span", { class: "faint" }, `${query}: `), shown(lines)));
}

function offsets(lines) {
  const text = lines.join("\n");
  return text.length <= 120 ? lines.map((line) => h("code", { class: "break under" }, line))
    : h("details", { class: "more" }, h("summary", {}, "Show"), h("pre", {}, text));
}

/** The newest first. A release before this one may leave out what it does not know. */
function skipped(all) {
  if (!all.length) return null;
  return all.map((skip) => h("span", { class: "under" },
    `${when(skip.at)}${skip.query ? `, ${skip.query}, epoch ${count(skip.epoch)}` : ""}: ${skip.text}`));
}
