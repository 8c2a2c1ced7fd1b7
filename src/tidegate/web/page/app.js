// The shell: it opens the view of an address, keeps its values fresh, and says when the server is away.

import { wantToken } from "./dialog.js";
import { at, h, show, tell } from "./dom.js";
import { Events, Feed } from "./feeds.js";
import { connection, token } from "./server.js";
import { frame, jobViews } from "./views/frame.js";
import { jobs } from "./views/jobs.js";
import { start } from "./views/start.js";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
let open = null;

/** The view of an address: `#/`, `#/start`, `#/jobs/NAME/VIEW/MORE`. */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  if (parts[0] === "start") return { place: "start", view: start, parts: parts.slice(1) };
  if (parts[0] !== "jobs" || !parts[1]) return { place: "jobs", view: jobs, parts: [] };
  const [, job, name = "overview", ...more] = parts;
  return { place: "jobs", view: frame(jobViews[name] ?? jobViews.overview, name in jobViews ? name : "overview"), job, parts: more };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Values of the same path go on; a view of the same job keeps its events, and the place of the keyboard. */
function visit() {
  const found = route();
  const place = `${found.place} ${found.job ?? ""}`;
  const view = `${found.view.name} ${found.view.deep ? "" : (found.parts[0] ?? "")}`;
  const [samePlace, sameView] = [open?.place === place, open?.place === place && open?.key === view];
  if (!samePlace) close();
  open = {
    ...found, place, key: view, asked: open?.asked ?? false,
    feeds: samePlace ? open.feeds : {}, events: samePlace ? open.events : null, state: sameView ? open.state : {},
  };
  feed(found.view.feeds(open));
  if (!samePlace && found.view.events) listen(found.view);
  document.title = `${found.view.title(open)} · tidegate`;
  drawPlaces(found.place);
  redraw();
  if (sameView) return;
  requestAnimationFrame(() => main.querySelectorAll(".tabs [aria-current]").forEach((tab) => tab.scrollIntoView({ block: "nearest", inline: "nearest" })));
  if (samePlace) return tell(found.view.title(open));
  draw();
  window.scrollTo(0, 0);
  main.querySelector("h1")?.focus({ preventScroll: true });
}

/** Ask for these values, and no longer for others. */
function feed(wanted) {
  for (const [name, known] of Object.entries(open.feeds)) {
    if (known.path === wanted[name]?.[0]) continue;
    known.stop();
    delete open.feeds[name];
  }
  for (const [name, [path, every]] of Object.entries(wanted)) {
    if (open.feeds[name]) continue;
    open.feeds[name] = new Feed(path, every, redraw);
    open.feeds[name].now();
  }
}

/** Where the server has events, they replace the asking; the rest goes on as before. */
function listen(view) {
  const { path, heard, instead } = view.events(open);
  const events = new Events(path, (name, data) => {
    if (open.events !== events) return;
    heard(name, data, open.feeds);
    redraw();
  }, (forGood) => {
    if (open.events !== events) return;
    if (forGood) open.events = null;
    open.feeds[instead].feed();
    open.feeds[instead].next();
  });
  open.events = events;
  events.now();
}

function close() {
  Object.values(open?.feeds ?? {}).forEach((feed) => feed.stop());
  open?.events?.stop();
}

let drawing = 0;
function redraw() {
  cancelAnimationFrame(drawing);
  drawing = requestAnimationFrame(draw);
}

function draw() {
  const unread = Object.values(open.feeds).find((feed) => feed.problem?.status === 401);
  if (unread && !open.asked) {
    open.asked = true;
    wantToken("This server shows nothing without its token.").then((right) => right && wake());
  }
  open.width = main.clientWidth;
  const said = open.view.render({ ...open, redraw, refresh: wake, width: inside() });
  show(main, said);
  document.getElementById("key").hidden = !token.get();
}

/** The width of a card's content. */
const inside = () => main.clientWidth - parseFloat(getComputedStyle(main).paddingLeft) * 2 - (main.clientWidth < 700 ? 26 : 34);

function wake() {
  if (document.hidden) return;
  for (const feed of Object.values(open.feeds)) if (feed.every || feed.value === undefined || feed.problem) feed.now();
  if (open.events && !open.events.open) open.events.now();
}

function drawPlaces(place) {
  const link = (name, title, href) => h("li", {}, h("a", { href, "aria-current": name === place ? "page" : null }, title));
  show(document.getElementById("places"), [link("jobs", "Jobs", at()), link("start", "Start", at("start"))]);
}

connection.changed = () => {
  document.body.classList.toggle("away", connection.lost);
  banner.hidden = !connection.lost;
  show(banner, connection.lost ? [
    h("span", {}, `The server does not answer since ${new Date(connection.since).toLocaleTimeString("en-GB")}. The values below are the last ones. This page tries again by itself.`),
    h("button", { class: "small", onclick: wake }, "Try now"),
  ] : []);
  if (!connection.lost) {
    tell("The server answers again.");
    wake();
  }
};

const THEMES = ["auto", "light", "dark"];
const theme = document.getElementById("theme");
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  theme.textContent = `Theme: ${name}`;
  localStorage.setItem("tidegate-theme", name);
}
theme.onclick = () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
setTheme(THEMES.includes(localStorage.getItem("tidegate-theme")) ? localStorage.getItem("tidegate-theme") : "auto");

document.getElementById("key").onclick = () => {
  token.forget();
  tell("The token is forgotten.");
  redraw();
};
document.querySelector(".skip").onclick = (event) => {
  event.preventDefault();
  main.focus();
};
document.addEventListener("token", redraw);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return wake();
  Object.values(open.feeds).forEach((feed) => feed.rest());
  open.events?.rest();
});
window.addEventListener("hashchange", visit);
window.addEventListener("resize", redraw);
setInterval(() => !document.hidden && redraw(), 1000);
visit();
