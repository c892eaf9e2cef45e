// The configuration view: the text of the file, with each finding at its line.

import { by_id, fill, h } from "./dom.js";
import { count } from "./format.js";

/** Display limits. */
const MAX_LINES = 5000;
const MAX_LINE_CHARS = 2000;

export function draw(answer) {
  const lines = answer.text === null || answer.text === undefined ? [] : answer.text.split("\n");
  const drawn = lines.slice(0, MAX_LINES);
  const within = (finding) => finding.line && finding.line <= drawn.length;
  const before = answer.findings.filter((finding) => !within(finding));
  const by_line = new Map();
  for (const finding of answer.findings.filter(within)) {
    by_line.set(finding.line, [...(by_line.get(finding.line) ?? []), finding]);
  }
  fill(
    by_id("findings"),
    h("p", null, h("code", null, answer.file), ": ", `${summary(answer.findings)}.`),
    before.map(remark),
    drawn.length > 0 &&
      h(
        "div",
        { class: "code", role: "region", tabindex: "0", "aria-label": "Configuration text" },
        drawn.flatMap((line, index) => [
          h("div", { class: by_line.has(index + 1) ? "row marked" : "row" }, h("span", { class: "count", "aria-hidden": "true" }, index + 1), h("code", null, line.slice(0, MAX_LINE_CHARS) || " ")),
          (by_line.get(index + 1) ?? []).map(remark),
        ]),
      ),
    lines.length > drawn.length && h("p", { class: "faint" }, `${count(lines.length - drawn.length, "more line")} not shown.`),
    lines.length === 0 && h("p", { class: "faint" }, "The configuration is not a single readable file."),
  );
}

function summary(findings) {
  const of = (severity) => findings.filter((finding) => finding.severity === severity).length;
  const [errors, warnings] = [of("error"), of("warning")];
  const counts = [[errors, "error"], [warnings, "warning"], [findings.length - errors - warnings, "note"]];
  return counts.filter(([value]) => value > 0).map(([value, what]) => count(value, what)).join(", ") || "no errors or warnings";
}

function remark(finding) {
  return h(
    "div",
    { class: `remark ${["error", "warning"].includes(finding.severity) ? finding.severity : "info"}`, role: "note" },
    h("strong", null, finding.severity),
    " ",
    finding.path && [h("code", null, finding.path), ": "],
    finding.message,
    finding.hint && h("div", { class: "faint" }, finding.hint),
  );
}
