// SVG charts with a view box of 600 × 120 that stretches to the available space.

import { h } from "./dom.js";
import { clock, count, number, time } from "./format.js";

const WIDE = 600;
const TALL = 120;
/** Ten minutes at one sample per 5 s. */
const POINTS = 120;
const INTERVAL_MS = 5000;

/** The samples of the last ten minutes; intervals without data become zeros. */
function samples(view) {
  const known = new Map(view.traffic.map((point) => [Math.floor(point.at / INTERVAL_MS), point]));
  const last = Math.floor(view.at / INTERVAL_MS);
  return Array.from({ length: POINTS }, (_, index) => {
    const interval = last - POINTS + 1 + index;
    return known.get(interval) ?? { at: interval * INTERVAL_MS, calls: 0, errors: 0, latency: null, savedTokens: 0 };
  });
}

/** Rounds up to an axis limit such as 150 or 2,000. */
function round_up(value) {
  if (value <= 1) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value);
}

function figure(title, said, legend, top, content, points) {
  const middle = points[Math.floor(points.length / 2)];
  return h(
    "figure",
    null,
    h("figcaption", null, h("span", { class: "title" }, title), legend),
    h(
      "div",
      { class: "plane" },
      h("span", { class: "top faint", "aria-hidden": "true" }, top),
      h(
        "svg",
        { viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", role: "img", "aria-label": said },
        h("line", { x1: 0, x2: WIDE, y1: 0.5, y2: 0.5, class: "grid" }),
        h("line", { x1: 0, x2: WIDE, y1: TALL / 2, y2: TALL / 2, class: "grid" }),
        h("line", { x1: 0, x2: WIDE, y1: TALL - 0.5, y2: TALL - 0.5, class: "ground" }),
        content,
      ),
      h(
        "div",
        { class: "axis faint", "aria-hidden": "true" },
        h("span", null, clock(points[0].at)),
        h("span", null, clock(middle.at)),
        h("span", null, clock(points.at(-1).at)),
      ),
    ),
  );
}

const mark = (name, said) => h("span", { class: `legend ${name}` }, h("i", { "aria-hidden": "true" }), said);

/** All calls and failed calls, one column per sample. */
export function calls(view) {
  const points = samples(view);
  const most = round_up(Math.max(...points.map((point) => point.calls)));
  const sum = (of) => points.reduce((all, point) => all + of(point), 0);
  const [all, errors] = [sum((point) => point.calls), sum((point) => point.errors)];
  const step = WIDE / POINTS;
  const columns = points.flatMap((point, index) => {
    const column = (name, value) => {
      const tall = (value / most) * (TALL - 2);
      return h("rect", { class: name, x: index * step + 0.5, width: step - 1, y: TALL - tall, height: tall });
    };
    return point.calls === 0
      ? []
      : [
          h(
            "g",
            null,
            h("title", null, `${clock(point.at)}: ${count(point.calls, "call")}, ${number(point.errors)} failed`),
            column("calls", point.calls),
            point.errors > 0 && column("failed", point.errors),
          ),
        ];
  });
  const legend = [mark("calls", `${number(all)} in 10 min`), mark("failed", `${number(errors)} failed`)];
  const said = `${count(all, "call")} in the last 10 minutes, ${number(errors)} failed, at most ${number(most)} in 5 seconds`;
  return figure("Calls", said, legend, `${number(most)} / 5 s`, columns, points);
}

/** Latency percentiles. */
export function latency(view) {
  const points = samples(view);
  const said = points.filter((point) => point.latency);
  const most = round_up(Math.max(1, ...said.map((point) => point.latency.p99)));
  const x = (index) => (index + 0.5) * (WIDE / POINTS);
  const y = (ms) => TALL - 1 - (Math.min(ms, most) / most) * (TALL - 3);
  const lines = ["p99", "p95", "p50"].flatMap((part) => {
    let path = "";
    let before = null;
    points.forEach((point, index) => {
      if (point.latency) {
        const joins = before !== null && index - before <= 6;
        path += `${joins ? "L" : `M${x(index) - 1.5} ${y(point.latency[part]).toFixed(1)}L`}${x(index) + 1.5} ${y(point.latency[part]).toFixed(1)}`;
        before = index;
      }
    });
    return path ? [h("path", { class: part, d: path })] : [];
  });
  const last = said.at(-1)?.latency;
  const legend = [h("span", { class: "legend" }, "latest:"), ...["p50", "p95", "p99"].map((part) => mark(part, `${part} ${last ? time(last[part]) : "–"}`))];
  const told = last
    ? `Latest latency of 5 seconds: p50 ${time(last.p50)}, p95 ${time(last.p95)}, p99 ${time(last.p99)}`
    : "No calls in the last 10 minutes";
  return figure("Latency per 5 s", told, legend, time(most), lines, points);
}

/** Cumulative tokens saved in the last ten minutes. */
export function saved(view) {
  const points = samples(view);
  let sum = 0;
  const sums = points.map((point) => (sum += point.savedTokens));
  const most = round_up(Math.max(1, ...sums));
  const y = (value) => TALL - 1 - (Math.max(0, value) / most) * (TALL - 3);
  const steps = sums.map((value, index) => `L${(index + 1) * (WIDE / POINTS)} ${y(value).toFixed(1)}`);
  const path = `M0 ${TALL - 1}${steps.join("")}L${WIDE} ${TALL - 1}Z`;
  const legend = [mark("calls", `${number(sum)} in 10 min`)];
  return figure("Tokens saved", `${number(sum)} tokens saved in the last 10 minutes`, legend, number(most), [h("path", { class: "area", d: path })], points);
}

/** A bar whose length is `value` relative to `most`. */
export function bar(value, most) {
  const part = most > 0 ? Math.max(0, Math.min(1, value / most)) : 0;
  return h(
    "svg",
    { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    value > 0 && h("rect", { class: "calls", width: Math.max(1, part * 100), height: 8 }),
  );
}
