// Sources with the lag of their readers, their offsets, and what they skipped.

import { h } from "../dom.js";
import { count } from "../format.js";
import { part, section, table } from "../parts.js";

export const sources = {
  feeds: (path) => ({ sources: [`${path}/sources`, 5] }),
  render: ({ feeds }) => section("Sources", part(feeds.sources, (value) => table("Sources of the job", [
    ["Source", (source) => [h("strong", {}, source.uid), h("span", { class: "faint under" }, source.told)], "main"],
    ["Kind", (source) => h("code", {}, source.kind)],
    ["Lag", (source) => lag(source.lag)],
    ["Offsets", (source) => offsets(source.offsets), "long"],
    ["Skipped", (source) => skipped(source.skipped), "long"],
  ], value.sources, { key: (source) => source.uid, none: "No start of this job has described its sources yet." }), "This server does not show sources.")),
};

function lag(value) {
  if (!value || typeof value === "string") return value;
  const all = Object.entries(value);
  return all.length === 1 ? all[0][1] : all.map(([query, text]) => h("span", { class: "under" }, `${query}: ${text}`));
}

function offsets(value) {
  if (value === null || value === undefined) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
  return text.length <= 80 ? h("code", { class: "break" }, text.replace(/\s+/g, " "))
    : h("details", { class: "more" }, h("summary", {}, "Show"), h("pre", {}, text));
}

function skipped(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "number") return count(value);
  return typeof value === "string" ? value : Object.entries(value).map(([name, number]) => h("span", { class: "under" }, `${name}: ${number}`));
}
