// JSON that preserves numbers: those that JavaScript can't represent exactly keep their source text.

/** The source text of a number. */
export class RawNumber {
  constructor(text) {
    this.text = text;
  }
}

/** Parses JSON. Browsers without reviver contexts round numbers, as `JSON.parse` does. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const source = context?.source;
    const is_exact = typeof value !== "number" || source === undefined || String(value) === source;
    return is_exact ? value : new RawNumber(source);
  });
}

/** Serializes to JSON, on several lines if `indent` is not empty. */
export function write(value, indent = "", before = "") {
  if (value instanceof RawNumber) {
    return value.text;
  }
  if (value === null || typeof value !== "object") {
    return JSON.stringify(value) ?? "null";
  }
  const is_list = Array.isArray(value);
  const within = before + indent;
  const parts = is_list
    ? value.map((item) => write(item, indent, within))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${indent && " "}${write(item, indent, within)}`);
  return joined(parts, is_list ? "[]" : "{}", indent, before);
}

/** Joins serialized members or items. */
export function joined(parts, ends, indent = "", before = "") {
  if (parts.length === 0) {
    return ends;
  }
  const gap = indent ? `\n${before}${indent}` : "";
  return `${ends[0]}${gap}${parts.join(`,${gap}`)}${indent ? `\n${before}` : ""}${ends[1]}`;
}
