// Requests to the server that gave out this page, and to no other. The token lives in this tab only.

const TOKEN = "tidegate-token";
const SECONDS_AT_MOST = 15;
const PAUSES = [1, 2, 4, 8, 15];

/** What the server refused, in its own words. `code` is empty where no code of tidegate is about it. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.problem = problem;
    this.code = problem.code ?? "";
    /** The server has no such view: it is older, or its operator has turned this off. */
    this.missing = (status === 404 || status === 405) && !this.code;
  }
}

/** The server does not answer. */
export class Unreachable extends Error {}

/** Whether the server answers. `failed`: how often it did not, in a row. */
export const connection = {
  failed: 0,
  since: null,
  changed: () => {},
  get lost() {
    return this.failed > 0;
  },
  /** Seconds until the next try. */
  get pause() {
    return PAUSES[Math.min(this.failed, PAUSES.length) - 1] ?? 0;
  },
  note(answered) {
    const was = this.lost;
    this.failed = answered ? 0 : this.failed + 1;
    if (was === this.lost) return;
    this.since = answered ? null : Date.now();
    this.changed();
  },
};

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

const address = (path) => new URL(path.replace(/^\//, ""), document.baseURI);

export function headers(more = {}, given = token.get()) {
  return given ? { ...more, Authorization: `Bearer ${given}` } : more;
}

/** The answer to one request, as JSON. Raises Refused, Unreachable. */
export async function ask(path, { method = "GET", body, given, seconds = SECONDS_AT_MOST } = {}) {
  const more = { Accept: "application/json" };
  if (body !== undefined) more["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address(path), {
      method,
      headers: headers(more, given),
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(seconds * 1000),
    });
  } catch (error) {
    connection.note(false);
    throw new Unreachable(String(error));
  }
  const text = await answer.text().catch(() => "");
  const value = parsed(text);
  if (answer.status >= 502 && !value?.detail) {
    connection.note(false);
    throw new Unreachable(`a proxy answered ${answer.status}`);
  }
  connection.note(true);
  if (!answer.ok) throw new Refused(answer.status, value ?? { detail: text.slice(0, 300) });
  return value;
}

/** The stream of a path: what `fetch` gives, so that it can carry the token. Raises Refused, Unreachable. */
export async function stream(path, last, signal) {
  let answer;
  try {
    const more = { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
    answer = await fetch(address(path), { headers: headers(more), cache: "no-store", credentials: "omit", signal });
  } catch (error) {
    if (!signal.aborted) connection.note(false);
    throw new Unreachable(String(error));
  }
  if (answer.ok) {
    connection.note(true);
    return answer.body.pipeThrough(new TextDecoderStream()).getReader();
  }
  throw new Refused(answer.status, parsed(await answer.text().catch(() => "")) ?? {});
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const LOOK_SECONDS = 1;

/** Between two looks at a work that the server does. */
export const untilNextLook = () => new Promise((wake) => setTimeout(wake, LOOK_SECONDS * 1000));

/** A new id for a request: the same request sent twice is done once. Of Flink's form: 32 digits. */
export function requestId() {
  const digits = crypto.getRandomValues(new Uint8Array(16));
  return [...digits].map((each) => each.toString(16).padStart(2, "0")).join("");
}
