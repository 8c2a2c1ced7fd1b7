// A savepoint is removed. The dialog says what goes with it, and asks. A click that is sent again is the same request,
// until that has ended.

import { mayAct } from "./actions.js";
import { open } from "./dialog.js";
import { h, tell } from "./dom.js";
import { bytes } from "./format.js";
import { problem } from "./parts.js";
import { Refused, ask, requestId, untilNextLook } from "./server.js";

const PATH = "/savepoint-disposal";

/** Ask, and remove it. `removed()`: the list of savepoints may be read again. */
export async function dispose(savepoint, removed) {
  if (!(await mayAct().catch(() => false))) return;
  const request = { id: requestId(), busy: false, problem: null };
  const { redraw } = open("Dispose of a savepoint", ({ close }) => {
    const submit = async (event) => {
      event.preventDefault();
      if (request.busy) return;
      Object.assign(request, { busy: true, problem: null });
      redraw();
      request.problem = await remove(savepoint.path, request.id);
      if (request.problem?.ended) request.id = requestId(); // the next try is another request
      request.busy = false;
      if (request.problem) return redraw();
      tell(`Disposed of ${savepoint.path}`);
      close();
      removed();
    };
    return h("form", { onsubmit: submit },
      h("p", {}, h("code", { class: "break" }, savepoint.path)),
      h("p", {}, `The folder and its ${bytes(savepoint.bytes)} are removed. This cannot be undone: no job starts from this savepoint any more.`),
      savepoint.claimed_by && h("p", { class: "warn-text" }, `The job ${savepoint.claimed_by} has claimed it.`),
      request.problem && problem(request.problem),
      request.busy && h("progress", { "aria-label": "Under way" }),
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: close, "data-first": true }, "Do nothing"),
        h("button", { class: "danger", "aria-disabled": request.busy ? "true" : null }, "Dispose of it")));
  });
}

/** What stood against it, or null. */
async function remove(path, id) {
  try {
    await ask(PATH, { method: "POST", body: { "savepoint-path": path, triggerId: id } });
    for (;;) {
      const { status, operation } = await ask(`${PATH}/${encodeURIComponent(id)}`);
      const cause = operation?.["failure-cause"];
      if (status.id === "COMPLETED") return cause ? { ended: true, problem: { detail: cause["stack-trace"] ?? cause.class } } : null;
      await untilNextLook();
    }
  } catch (error) {
    return error instanceof Refused ? error : { problem: { detail: "The server does not answer. Try again: it is removed once, however often it is asked." } };
  }
}
