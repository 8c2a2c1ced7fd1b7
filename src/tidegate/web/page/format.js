// Numbers, times and sizes as text. What is not known is an en dash.

export const NOTHING = "–";
const known = (value) => value !== null && value !== undefined && value !== "" && !Number.isNaN(value);

export const count = (value) => (known(value) ? Number(value).toLocaleString("en") : NOTHING);

export function rate(value) {
  if (!known(value)) return NOTHING;
  if (value >= 1e6) return `${short(value / 1e6)} M/s`;
  if (value >= 1e4) return `${short(value / 1e3)} k/s`;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en")}/s`;
}

const short = (value) => (value >= 100 ? Math.round(value) : value.toFixed(1));

/** A duration in milliseconds. */
export function span(ms) {
  if (!known(ms)) return NOTHING;
  if (ms < 1) return ms > 0 ? `${ms.toFixed(1)} ms` : "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min${Math.floor(seconds % 60) ? ` ${Math.floor(seconds % 60)} s` : ""}`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h${minutes % 60 ? ` ${minutes % 60} min` : ""}` : `${Math.floor(hours / 24)} d${hours % 24 ? ` ${hours % 24} h` : ""}`;
}

/** Seconds since 1970, of a number or of a time as ISO 8601 writes it. */
export function seconds(value) {
  if (!known(value)) return null;
  if (typeof value === "number") return value;
  const parsed = Date.parse(value);
  return Number.isNaN(parsed) ? null : parsed / 1000;
}

/** How long ago, in a few words: changes once in a second at most, then more slowly. */
export function ago(value) {
  const then = seconds(value);
  if (then === null || then <= 0) return NOTHING;
  const passed = Math.max(0, Date.now() / 1000 - then);
  if (passed < 60) return `${Math.floor(passed)} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 172800) return `${Math.floor(passed / 3600)} h ago`;
  return `${Math.floor(passed / 86400)} d ago`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export const clock = (value) => (seconds(value) ? CLOCK.format(seconds(value) * 1000) : NOTHING);

/** Day and time; without the day if it is today. */
export function when(value) {
  const then = seconds(value);
  if (!then) return NOTHING;
  const date = new Date(then * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? CLOCK.format(date) : `${DAY.format(date)}, ${CLOCK.format(date)}`;
}

export function bytes(value) {
  if (!known(value)) return NOTHING;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let left = Number(value);
  let unit = 0;
  while (left >= 1000 && unit < units.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** The values at these shares of a sorted list; null for an empty one. */
export function summary(values) {
  const sorted = values.filter(known).sort((one, other) => one - other);
  if (!sorted.length) return null;
  const share = (part) => sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)];
  const sum = sorted.reduce((one, other) => one + other, 0);
  return {
    min: sorted[0], avg: sum / sorted.length, p50: share(0.5), p90: share(0.9), p99: share(0.99), max: sorted.at(-1),
  };
}
