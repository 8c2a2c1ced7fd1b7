// What a person may do with a job. A dialog says what will happen, and asks. The id of the request is made once, when
// the dialog opens: a second click, or a second try after a lost answer, is the same request.

import { field, open, wantToken } from "./dialog.js";
import { h, tell } from "./dom.js";
import { bytes, count } from "./format.js";
import { facts, pill, problem } from "./parts.js";
import { Refused, ask, requestId, token, untilNextLook } from "./server.js";

const FORMATS = [["native", "Native: fast, for the same program"], ["canonical", "Canonical: for another state backend, parallelism or schema"]];

/** By the name of its kind. `ends`: the job is not running afterwards. */
export const ACTIONS = {
  checkpoint: {
    label: "Checkpoint", verb: "Take a checkpoint", tone: "primary",
    says: (job) => [`${job} completes an epoch now, and goes on.`, "A checkpoint belongs to the job: older ones are removed as usual."],
  },
  savepoint: {
    label: "Savepoint", verb: "Take a savepoint", tone: "primary", into: true,
    says: (job) => [`${job} completes an epoch, its state is copied, and the job goes on.`, "A savepoint is yours: it is kept until you dispose of it."],
  },
  "stop-with-savepoint": {
    label: "Stop with savepoint", verb: "Stop with a savepoint", tone: "danger", into: true, ends: true,
    says: (job) => [`${job} completes its epoch, takes a savepoint of its end, and stops.`, "Nothing is lost: a start from the savepoint, or from here, goes on where it stopped."],
  },
  "drain-with-savepoint": {
    label: "Drain", verb: "Drain the job", tone: "danger", into: true, ends: true,
    says: (job) => [`${job} closes all windows as if its input had ended, writes their rows, takes a savepoint and stops.`, "Do this when the input has really ended. Rows that come later do not enter the windows that were closed."],
  },
  stop: {
    label: "Stop", verb: "Stop the job", tone: "danger", ends: true,
    says: (job) => [`${job} completes its epoch and stops, without a savepoint.`, "A start resumes where it stopped."],
  },
  cancel: {
    label: "Cancel", verb: "Cancel the job", tone: "danger", ends: true,
    says: (job) => [`${job} ends at once, in the middle of an epoch.`, "The next start computes that epoch again. No row is lost, and none is shown twice by an exactly-once sink."],
  },
  "cancel-with-savepoint": {
    label: "Cancel with savepoint", verb: "Cancel with a savepoint", tone: "danger", into: true, ends: true,
    says: (job) => [`${job} ends at once, in the middle of an epoch, and a savepoint of its newest done epoch is taken.`, "A start from the savepoint, or from here, computes the broken epoch again."],
  },
};

const ENDINGS = {
  done: ["good", "check"], refused: ["warn", "cross"], failed: ["bad", "cross"], unknown: ["warn", "ring"], pending: ["info", "ring"],
};

/** The requests of this tab that were sent, by job; the newest first. */
const sent = new Map();
export const requestsOf = (job) => sent.get(job) ?? [];

/** True if the server lets this person act now; asks for the token where one is needed. */
export async function mayAct() {
  const access = await ask("/access").catch((error) => {
    if (error instanceof Refused) return { acting: error.missing ? "open" : "token", may_act: error.missing };
    throw error;
  });
  if (access.may_act) return true;
  if (access.acting === "refused") {
    open("Nothing can be done here", ({ close }) => [
      h("p", {}, "This server only shows: its operator has not allowed actions."),
      h("div", { class: "buttons" }, h("button", { class: "primary", onclick: close }, "Close")),
    ]);
    return false;
  }
  return wantToken("To act on a job, this server wants its token.");
}

let opening = false;

/** Open the dialog of an action. `changed()`: the page may look at the job again. */
export async function begin(kind, job, changed) {
  if (opening) return;
  opening = true;
  const may = await mayAct().catch(() => false);
  opening = false;
  if (!may) return;
  const action = ACTIONS[kind];
  const request = { id: requestId(), kind, job, state: "", problem: null, ticket: null };
  const { redraw } = open(action.verb, (dialog) => (request.state ? following(request, action, dialog) : asking(request, action, dialog)));
  request.changed = () => {
    redraw();
    changed();
  };
}

function asking(request, action, { close, redraw }) {
  const submit = (event) => {
    event.preventDefault();
    if (request.state || request.busy) return;
    request.busy = true;
    const form = event.target.elements;
    const body = { kind: request.kind, id: request.id };
    if (action.into && form.into.value.trim()) body.into = form.into.value.trim();
    if (action.into) body.format = form.format.value;
    redraw();
    send(request, body);
  };
  return h("form", { onsubmit: submit },
    action.says(request.job).map((text) => h("p", {}, text)),
    action.into && [
      field("Folder", h("input", { name: "into", autocomplete: "off", spellcheck: "false", placeholder: "where the job's settings say" }), "Empty: the folder of the job's settings."),
      field("Format", h("select", { name: "format" }, FORMATS.map(([value, label]) => h("option", { value }, label)))),
    ],
    request.problem && problem(request.problem),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Do nothing"),
      h("button", { class: action.tone, "data-first": true, "aria-disabled": request.busy ? "true" : null }, action.verb)));
}

/** Send it; the same id as often as it takes. */
async function send(request, body) {
  request.problem = null;
  const path = `/jobs/${encodeURIComponent(request.job)}/actions`;
  for (;;) {
    try {
      const ticket = await ask(path, { method: "POST", body });
      take(request, { id: request.id, ...ticket, state: ticket.state ?? "pending" });
      sent.set(request.job, [request, ...requestsOf(request.job)].slice(0, 5));
      request.changed();
      return follow(request, path);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        token.forget();
        if (await wantToken("The server did not take the token.")) continue;
      }
      request.busy = false;
      request.problem = error instanceof Refused ? error : { problem: { detail: "The server does not answer. Try again: the request is done once, however often it is sent." } };
      return request.changed();
    }
  }
}

async function follow(request, path) {
  while (request.state === "pending") {
    await untilNextLook();
    try {
      take(request, await ask(`${path}/${encodeURIComponent(request.ticket.id)}`));
    } catch (error) {
      if (!(error instanceof Refused)) continue;
      request.state = "unknown";
      request.problem = error;
    }
    request.changed();
  }
}

function take(request, ticket) {
  const was = request.state;
  request.ticket = ticket;
  request.state = ticket.state;
  if (was !== ticket.state) tell(`${ACTIONS[request.kind].verb}, ${request.job}: ${ticket.state}`);
}

function following(request, action, { close }) {
  const { ticket, state } = request;
  const { progress, answer } = ticket;
  return [
    h("p", { class: "lead" }, pill(state, ENDINGS[state]), h("strong", {}, request.job)),
    state === "pending" && h("p", {}, ticket.waits_for ? `It waits for: ${ticket.waits_for}.` : "The job has the request.", " You may close this: the request goes on."),
    state === "pending" && (progress?.of
      ? h("label", { class: "field" }, h("span", {}, `${bytes(progress.bytes)} of ${bytes(progress.of)}`), h("progress", { max: progress.of, value: progress.bytes }))
      : h("progress", { "aria-label": "Under way" })),
    answer && facts(
      answer.detail && ["Answer", answer.detail],
      answer.savepoint && ["Savepoint", h("code", {}, answer.savepoint)],
      answer.epochs && Object.keys(answer.epochs).length && ["Epochs", Object.entries(answer.epochs).map(([query, epoch]) => `${query} ${count(epoch)}`).join(", ")]),
    request.problem && problem(request.problem),
    h("div", { class: "buttons" }, h("button", { class: "primary", onclick: close, "data-first": true }, "Close")),
  ];
}

/** The newest request of a job, as a line above its views. */
export function newest(job) {
  const [request] = requestsOf(job);
  if (!request) return null;
  const again = () => {
    const { redraw } = open(ACTIONS[request.kind].verb, (dialog) => following(request, ACTIONS[request.kind], dialog));
    const before = request.changed;
    request.changed = () => {
      redraw();
      before();
    };
  };
  return h("p", { class: "request" }, pill(request.state, ENDINGS[request.state]), ACTIONS[request.kind].verb,
    request.ticket.answer?.savepoint && h("code", {}, request.ticket.answer.savepoint), h("button", { class: "small", onclick: again }, "Show"));
}
