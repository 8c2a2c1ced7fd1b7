// Dialogs: one at a time, the browser's own, so that focus stays inside and Escape closes. And the one for the token.

import { h, show } from "./dom.js";
import { ask, token } from "./server.js";

/** Open a dialog. `content(dialog)` gives its parts; `redraw()` of what is returned draws them anew. */
export function open(title, content, closed = () => {}) {
  const inner = h("div", {});
  const dialog = h("dialog", { "aria-label": title }, inner);
  const redraw = () => show(inner, [h("h2", {}, title), content({ close: () => dialog.close(), redraw })]);
  dialog.addEventListener("close", () => {
    dialog.remove();
    closed();
  });
  document.body.append(dialog);
  redraw();
  dialog.showModal();
  (dialog.querySelector("[data-first]") ?? dialog.querySelector("button"))?.focus();
  return { dialog, redraw };
}

export const field = (label, control, help = null) =>
  h("label", { class: "field" }, h("span", {}, label), control, help && h("small", {}, help));

/** Ask for the token until it is right; false if the person gives up. */
export function wantToken(why) {
  return new Promise((decide) => {
    let said = "";
    let busy = false;
    let right = false;
    open("Token", ({ close, redraw }) => {
      const submit = async (event) => {
        event.preventDefault();
        const given = event.target.elements.token.value.trim();
        if (!given || busy) return;
        busy = true;
        try {
          right = await holds(given);
          said = right ? "" : "This is not the token of this server.";
        } catch (error) {
          said = error.message;
        }
        busy = false;
        if (right) {
          token.set(given);
          document.dispatchEvent(new Event("token"));
          close();
        } else {
          redraw();
        }
      };
      return h("form", { onsubmit: submit },
        h("p", {}, why, " The server printed its token when it started. It stays in this tab, and is gone when the tab is closed."),
        field("Token", h("input", { name: "token", type: "password", autocomplete: "off", spellcheck: "false", "data-first": true, "aria-describedby": "token-said" })),
        h("p", { id: "token-said", class: "bad-text", role: "alert" }, said),
        h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "primary" }, "Use this token")));
    }, () => decide(right));
  });
}

async function holds(given) {
  const access = await ask("/access", { given }).catch((error) => {
    if (error.status === 401 || error.status === 403) return { may_act: false };
    if (error.missing) return { may_act: true };
    throw error;
  });
  return access.may_act;
}
