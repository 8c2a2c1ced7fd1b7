// The end of the job's log, with a filter that the server applies.

import { h } from "../dom.js";
import { empty, part, section } from "../parts.js";

const LEVELS = [[/\b(ERROR|FATAL|CRITICAL)\b|^Traceback|Exception\b/, "bad-text"], [/\bWARN(ING)?\b/, "warn-text"]];
const LINES = [200, 500, 2000];
const PAUSE = 300;

export const log = {
  deep: true,
  feeds: (path, { state }) => ({ log: [`${path}/log?lines=${state.lines ?? 500}&filter=${encodeURIComponent(state.filter ?? "")}`, 2] }),
  render: (open) => section("Log", controls(open), part(open.feeds.log, drawn, "This server does not show logs.")),
};

let typing = 0;

function controls({ state }) {
  const again = () => window.dispatchEvent(new HashChangeEvent("hashchange"));
  const filter = (event) => {
    state.filter = event.target.value;
    clearTimeout(typing);
    typing = setTimeout(again, PAUSE);
  };
  const lines = (event) => {
    state.lines = Number(event.target.value);
    again();
  };
  return h("div", { class: "tools" },
    h("input", { type: "search", placeholder: "Only lines with…", "aria-label": "Only lines with", oninput: filter }),
    h("label", {}, h("span", {}, "Lines "), h("select", { onchange: lines }, LINES.map((each) => h("option", { value: each, selected: each === (state.lines ?? 500) }, String(each))))));
}

const drawn = ({ lines, path, problem: why }) => [
  path && h("p", {}, h("code", { class: "path" }, path)),
  lines.length
    ? h("div", { class: "log", tabindex: 0, role: "group", "aria-label": "Lines of the log, the newest last" },
      h("div", {}, lines.map((line) => h("div", { class: LEVELS.find(([level]) => level.test(line))?.[1] ?? null }, line || "\u00a0"))))
    : empty(path ? "No line fits." : why || "This job has written no log here."),
];
