// Start a program of the folders that the operator has allowed. The verdict on its savepoint is shown before it starts.

import { mayAct } from "../actions.js";
import { field } from "../dialog.js";
import { at, h, tell } from "../dom.js";
import { bytes, count, when } from "../format.js";
import { empty, facts, part, pill, problem, section } from "../parts.js";
import { Refused, ask, requestId, untilNextLook } from "../server.js";

const OFF = ["Programs cannot be started here. The operator of this server turns it on with the setting ", h("code", {}, "ui.programs"), ", which names the folders whose programs may be started. "];

const off = (jars) => jars.problem?.status === 403 && !jars.problem.code;

export const start = {
  name: "start",
  title: () => "Start a job",
  feeds: () => ({ jars: ["/jars", 15], savepoints: ["/savepoints", 30] }),
  render: (open) => [
    h("div", { class: "head" }, h("h1", { tabindex: -1 }, "Start a job")),
    off(open.feeds.jars) ? empty(OFF) : part(open.feeds.jars, ({ files }) => (files.length ? form(files, open) : section("Programs", empty("The allowed folders hold no program."))), OFF),
  ],
};

function form(files, { feeds, state, parts, redraw }) {
  state.savepoint ??= parts[1] ?? "";
  const program = files.find((each) => each.id === state.program) ?? files[0];
  const known = feeds.savepoints.value?.savepoints ?? [];
  const set = (name, of = "value") => (event) => {
    state[name] = event.target[of];
    state.verdict = null;
    redraw();
  };
  const pick = (event) => {
    state.savepoint = event.target.value;
    event.target.form.elements.savepoint.value = state.savepoint;
    set("savepoint")(event);
  };
  const submit = (event) => {
    event.preventDefault();
    (state.verdict?.allowed ? run : check)(program, state, redraw);
  };
  return section("What to start", h("form", { class: "start", onsubmit: submit },
    field("Program", h("select", { name: "program", onchange: set("program") }, files.map((each) => h("option", { value: each.id, selected: each.id === program.id }, each.name))),
      `${program.uploaded ? `Changed ${when(program.uploaded / 1000)}. ` : ""}${program.entry?.[0]?.description ?? ""}`),
    field("Entry class", h("input", { name: "entry", oninput: set("entry"), autocomplete: "off", placeholder: program.entry?.[0]?.name ?? "the program itself" }), "Only where a program has several."),
    field("Parallelism", h("input", { name: "parallelism", type: "number", min: 1, oninput: set("parallelism"), placeholder: "as the program says" })),
    field("Program arguments", h("input", { name: "arguments", oninput: set("arguments"), autocomplete: "off", spellcheck: "false", placeholder: "--name value" })),
    field("Savepoint path", h("input", { name: "savepoint", oninput: set("savepoint"), autocomplete: "off", spellcheck: "false", value: state.savepoint }), "Empty: the job goes on from its last checkpoint, or starts anew."),
    known.length ? field("… or one of these", h("select", { onchange: pick }, h("option", { value: "" }, "Pick a savepoint"),
      known.map((each) => h("option", { value: each.path }, `${each.job ?? ""} ${when(each.at)} ${bytes(each.bytes)} ${each.path}`)))) : null,
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: Boolean(state.skip), onchange: set("skip", "checked") }), "Allow state that the program does not have any more (it is dropped)"),
    verdict(state),
    h("div", { class: "buttons" }, h("button", { class: "primary", "aria-disabled": state.busy ? "true" : null }, state.verdict?.allowed ? "Start the job" : "Check, then start"))));
}

const outcome = ({ pending, allowed }) => (pending ? ["checking", ["info", "ring"]] : allowed ? ["may start", ["good", "check"]] : ["refused", ["bad", "cross"]]);

function verdict({ verdict: found, wrong, started }) {
  return h("div", { class: "verdict", role: "status" },
    found && [
      h("p", { class: "lead" }, pill(...outcome(found)), h("span", {}, found.text)),
      found.facts?.length ? facts(...found.facts) : null,
    ],
    wrong && problem(wrong),
    started && [
      h("p", {}, `Process ${started.process} keeps the job alive: `, h("a", { href: at("jobs", started.name) }, `look at ${started.name}`), "."),
      (started.notes ?? []).map((each) => h("p", { class: "warn-text" }, each)),
      started.log ? facts(["Log", h("code", { class: "break" }, started.log)]) : null,
    ]);
}

const body = (state) => ({
  ...(state.entry ? { entryClass: state.entry } : {}),
  ...(state.arguments ? { programArgs: state.arguments } : {}),
  ...(state.parallelism ? { parallelism: Number(state.parallelism) } : {}),
  ...(state.savepoint ? { savepointPath: state.savepoint, allowNonRestoredState: Boolean(state.skip) } : {}),
});

const SAYS = { ok: "The program fits the savepoint.", migrate: "The program fits, and its state is migrated.", impossible: "The program does not fit the savepoint." };

/** What `tidegate savepoint check` says; without a savepoint there is nothing to say. */
async function check(program, state, redraw) {
  if (!state.savepoint) {
    state.verdict = { allowed: true, text: "No savepoint is restored. Press again to start." };
    tell(state.verdict.text);
    return redraw();
  }
  await sent(state, redraw, async () => {
    const path = `/jars/${encodeURIComponent(program.id)}/check`;
    state.verdict = { pending: true, text: "The program is compared with the savepoint…" };
    redraw();
    let ticket = await ask(path, { method: "POST", body: { ...body(state), id: requestId() } });
    while (ticket.state === "pending") {
      await untilNextLook();
      ticket = await ask(`${path}/${encodeURIComponent(ticket.id)}`);
    }
    state.verdict = null;
    if (ticket.problem) state.wrong = { problem: ticket.problem };
    else state.verdict = judged(ticket);
    tell(state.verdict?.text ?? "The check has failed.");
  });
}

const judged = ({ verdict: found, changes = [], reasons = [], epochs = {} }) => ({
  allowed: found !== "impossible",
  text: SAYS[found] ?? found,
  facts: [
    ...reasons.map((each) => ["Reason", each]), ...changes.map((each) => ["Change", each]),
    ...Object.entries(epochs).map(([query, epoch]) => [`${query} goes on after`, `epoch ${count(epoch)}`]),
  ],
});

const LOST = "The server does not answer. The job may have been started: look at Jobs first, before you start it again.";

const run = (program, state, redraw) => sent(state, redraw, async () => {
  const path = `/jars/${encodeURIComponent(program.id)}/run`;
  state.started = await ask(path, { method: "POST", body: body(state), seconds: 120 }).catch((error) => {
    throw error instanceof Refused ? error : Object.assign(error, { problem: { detail: LOST } });
  });
  state.verdict = null;
  tell("The job has been started.");
});

async function sent(state, redraw, what) {
  if (state.busy) return;
  Object.assign(state, { busy: true, wrong: null, started: null });
  redraw();
  try {
    if (await mayAct()) await what();
  } catch (error) {
    state.wrong = error.problem ? error : { problem: { detail: "The server does not answer." } };
    state.verdict = null;
  }
  state.busy = false;
  redraw();
}
