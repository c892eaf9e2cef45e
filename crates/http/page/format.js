// Formats numbers, sizes and times.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const number = (value) => NUMBER.format(value);
export const some = (value) => (value ? number(value) : "");
export const clock = (at) => CLOCK.format(new Date(at));
export const date = (at) => DATE.format(new Date(at));

/** Abbreviates to thousands or millions, such as `12 k`. */
export function short(value) {
  const size = Math.abs(value);
  if (size < 10_000) {
    return number(value);
  }
  return size < 1_000_000 ? `${number(value / 1000)} k` : `${(value / 1_000_000).toFixed(1)} M`;
}

export function bytes(value) {
  if (value === null || value === undefined) {
    return "";
  }
  if (value < 1000) {
    return `${value} B`;
  }
  if (value < 1_000_000) {
    return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} kB`;
  }
  return `${number(value / 1_000_000)} MB`;
}

export function time(ms) {
  if (ms === null || ms === undefined) {
    return "";
  }
  if (ms < 10) {
    return `${ms.toFixed(1)} ms`;
  }
  return ms < 10_000 ? `${number(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** A duration in its largest unit. */
export function span(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) {
    return `${seconds} s`;
  }
  if (seconds < 3600) {
    return `${Math.floor(seconds / 60)} min`;
  }
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}

/** The name and version that the client of an agent reports. */
export const client_name = (agent) => [agent.client ?? "(unnamed)", agent.version].filter(Boolean).join(" ");

/** The clients of a workbench, each with the number of its sessions if it has several. */
export function clients(view) {
  const sessions = new Map();
  for (const name of view.agents.map(client_name)) {
    sessions.set(name, (sessions.get(name) ?? 0) + 1);
  }
  return [...sessions].map(([name, times]) => (times === 1 ? name : `${name} ×${times}`)).join(", ") || "no client";
}

/** `1 call`, `2 calls`. */
export const count = (value, what) => `${number(value)} ${what}${value === 1 ? "" : "s"}`;
