// What all views of one job have around them: name, state, actions, tabs.

import { ACTIONS, begin, newest } from "../actions.js";
import { at, h, tell } from "../dom.js";
import { ago, when } from "../format.js";
import { pill, problem, tabs } from "../parts.js";
import { checkpoints } from "./checkpoints.js";
import { exceptions } from "./exceptions.js";
import { log } from "./log.js";
import { overview } from "./overview.js";
import { settings } from "./settings.js";
import { sinks } from "./sinks.js";
import { sources } from "./sources.js";

export const jobViews = { overview, checkpoints, sinks, sources, exceptions, settings, log };
const TITLES = {
  overview: "Overview", checkpoints: "Checkpoints", sinks: "Sinks", sources: "Sources", exceptions: "Exceptions", settings: "Settings", log: "Log",
};
const OFFERED = ["checkpoint", "savepoint", "stop-with-savepoint", "drain-with-savepoint", "stop", "cancel", "cancel-with-savepoint"];

/** A view of a job, in its frame. */
export const frame = (view, name) => ({
  name: `job ${name}`,
  deep: view.deep,
  title: ({ job }) => `${TITLES[name]} · ${job}`,
  feeds: (open) => ({ live: [`/jobs/${encodeURIComponent(open.job)}/live`, 2], ...view.feeds(`/jobs/${encodeURIComponent(open.job)}`, open) }),
  events: ({ job }) => ({ path: `/jobs/${encodeURIComponent(job)}/events`, instead: "live", heard }),
  render: (open) => [header(open, name), h("div", { class: "view", "data-key": open.key }, unknown(open) ?? view.render(open))],
});

function heard(name, data, { live, epochs, failures }) {
  if (name === "live") live.feed(data);
  if (name === "problem") live.refuse(data);
  if (name === "failure") failures?.now();
  if (name !== "epoch" || !epochs?.value) return;
  const others = epochs.value.epochs.filter((each) => each.query !== data.query || each.epoch !== data.epoch);
  const asked = new URLSearchParams(epochs.path.split("?")[1]).get("newest");
  epochs.value = { epochs: [data, ...others].slice(0, Number(asked)) };
}

const UNKNOWN = new Set(["TG-JOB-UNKNOWN", "TG-UID-INVALID", "TG-FOLDER-UNKNOWN"]);

/** A job that is not there has no views. */
const unknown = ({ feeds: { live } }) => (UNKNOWN.has(live.problem?.code) ? problem(live.problem) : null);

let told = "";

function header({ job, feeds: { live }, refresh }, name) {
  const card = live.value?.card;
  const state = card ? `${job} ${card.state}` : "";
  if (state && told && told !== state && told.startsWith(`${job} `)) tell(`${job} is now ${card.state}`);
  told = state || told;
  return [
    h("nav", { class: "crumbs", "aria-label": "Path" }, h("a", { href: at() }, "Jobs"), h("span", { "aria-hidden": "true" }, "/")),
    h("div", { class: "head" },
      h("h1", { tabindex: -1 }, card?.name ?? job),
      card && pill(card.state, undefined, card.meaning),
      card && h("span", { class: "faint" }, card.since ? h("time", { title: when(card.since) }, `${card.alive ? "driver started" : "ended"} ${ago(card.since)}`) : card.meaning),
      card && h("div", { class: "acts" }, card.alive ? menu(job, refresh) : h("a", { class: "button", href: at("start", job) }, "Start…"))),
    card?.problem || live.value?.error ? h("p", { class: "trouble wide" }, card.problem || live.value.error) : null,
    newest(job),
    tabs("Views of the job", Object.entries(TITLES).map(([key, title]) => [key, title, key === "overview" ? at("jobs", job) : at("jobs", job, key)]), name),
  ];
}

/** The two that do no harm as buttons, the others behind one more. */
function menu(job, refresh) {
  const button = (kind, look) => h("button", { class: look, "data-key": kind, onclick: (event) => {
    event.currentTarget.closest("details")?.removeAttribute("open");
    begin(kind, job, refresh);
  } }, `${ACTIONS[kind].label}…`);
  const leave = (event) => {
    if (event.key !== "Escape") return;
    event.currentTarget.removeAttribute("open");
    event.currentTarget.querySelector("summary").focus();
  };
  return [
    OFFERED.slice(0, 2).map((kind) => button(kind, null)),
    h("details", { class: "menu", onkeydown: leave }, h("summary", {}, "Stop"), h("div", {}, OFFERED.slice(2).map((kind) => button(kind, "item")))),
  ];
}
