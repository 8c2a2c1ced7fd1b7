// Each setting of the newest driver, and the place that has set it.

import { h } from "../dom.js";
import { count } from "../format.js";
import { part, section, table } from "../parts.js";

export const settings = {
  feeds: (path) => ({ settings: [`${path}/settings`, 30] }),
  render: ({ feeds, state, redraw }) => section("Settings", part(feeds.settings, ({ settings: all }) => {
    const origins = [...new Set(all.map((each) => each.origin))];
    const wanted = (state.filter ?? "").toLowerCase();
    const shown = all.filter((each) => `${each.name} ${each.value}`.toLowerCase().includes(wanted) && (!state.origin || each.origin === state.origin));
    const change = (name) => (event) => {
      state[name] = event.target.value;
      redraw();
    };
    return [
      h("div", { class: "tools" },
        h("input", { type: "search", placeholder: "Filter settings", "aria-label": "Filter settings", oninput: change("filter") }),
        h("label", {}, h("span", {}, "Set by "), h("select", { onchange: change("origin") }, h("option", { value: "" }, "any place"), origins.map((each) => h("option", { value: each }, each)))),
        h("span", { class: "faint" }, `${count(shown.length)} of ${count(all.length)}`)),
      table("Settings of the newest driver", [
        ["Setting", (each) => h("code", {}, each.name), "main"],
        ["Value", (each) => h("code", { class: "break" }, each.value)],
        ["Set by", (each) => h("span", { class: each.origin === "default" ? "faint" : null }, each.origin)],
      ], shown, { key: (each) => each.name, none: all.length ? "No setting fits the filter." : "No driver of this job has reported its settings yet." }),
    ];
  }, "This server does not show settings.")),
};
