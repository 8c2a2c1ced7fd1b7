// Values that stay fresh: by asking again, or by the server's own events. Both rest while the tab is hidden.

import { Refused, Unreachable, ask, connection, stream } from "./server.js";

/** One path, asked again each so many seconds; with 0 only once. */
export class Feed {
  constructor(path, every, changed) {
    Object.assign(this, { path, every, changed, value: undefined, problem: null, timer: 0, stopped: false, fed: false });
    this.round = 0;
  }

  /** The server's events bring this value: it need not be asked for. Without one: they have ended. */
  feed(value) {
    this.fed = value !== undefined;
    if (!this.fed) return;
    this.round += 1; // an answer that is still under way is older
    Object.assign(this, { value, problem: null });
  }

  /** The server's events say why there is no newer value; the last one is kept. */
  refuse(problem) {
    this.problem = new Refused(problem.status ?? 0, problem);
  }

  /** Ask now, and go on from here. */
  async now() {
    if (this.fed) return;
    clearTimeout(this.timer);
    const round = ++this.round;
    try {
      const value = await ask(this.path);
      if (this.stopped || round !== this.round) return;
      Object.assign(this, { value, problem: null });
    } catch (error) {
      if (this.stopped || round !== this.round) return;
      if (error instanceof Refused) this.problem = error;
      else if (!(error instanceof Unreachable)) throw error;
    }
    this.changed();
    this.next();
  }

  next() {
    const gone = this.problem?.missing ?? false;
    const pause = connection.lost ? connection.pause : gone ? 0 : this.every;
    if (pause && !this.stopped && !document.hidden) this.timer = setTimeout(() => this.now(), pause * 1000);
  }

  rest() {
    clearTimeout(this.timer);
  }

  stop() {
    this.stopped = true;
    this.rest();
  }
}

/** The server's events of one path. `heard(name, data)` gets each; `ended()` is called when they end, or are not served. */
export class Events {
  constructor(path, heard, ended) {
    Object.assign(this, { path, heard, ended, last: "", control: null, timer: 0, open: false });
  }

  async now() {
    this.rest();
    const control = new AbortController();
    this.control = control;
    try {
      const reader = await stream(this.path, this.last, control.signal);
      this.open = true;
      await this.read(reader);
    } catch (error) {
      if (control.signal.aborted) return;
      if (error instanceof Refused) return this.ended(true);
      if (this.open) connection.note(false);
    }
    if (control.signal.aborted) return;
    this.open = false;
    this.ended(false);
    this.timer = setTimeout(() => this.now(), Math.max(1, connection.pause) * 1000);
  }

  async read(reader) {
    let left = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (left + value).split(/\r?\n\r?\n/);
      left = blocks.pop();
      for (const block of blocks) this.take(block);
    }
  }

  take(block) {
    const fields = { event: "message", data: [] };
    for (const line of block.split(/\r?\n/)) {
      const [, name, text] = /^(\w+): ?(.*)$/.exec(line) ?? [];
      if (name === "data") fields.data.push(text);
      else if (name) fields[name] = text;
    }
    if (fields.id !== undefined) this.last = fields.id;
    if (fields.data.length) this.heard(fields.event, JSON.parse(fields.data.join("\n")));
  }

  rest() {
    clearTimeout(this.timer);
    this.control?.abort();
    if (this.open) this.ended(false);
    this.open = false;
  }

  stop() {
    this.rest();
  }
}
