// JSON that keeps its numbers: one that a browser cannot hold exactly stays the text that it was.

/** A number as it was written. */
export class Written {
  constructor(text) {
    this.text = text;
  }
}

/** Reads JSON. Throws a `SyntaxError` with what is wrong. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const source = context?.source;
    const is_exact = typeof value !== "number" || source === undefined || String(value) === source;
    return is_exact ? value : new Written(source);
  });
}

/** Writes JSON, with line breaks if `indent` is not empty. */
export function write(value, indent = "", before = "") {
  if (value instanceof Written) {
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

/** Members or items, each written already, as one text. */
export function joined(parts, ends, indent = "", before = "") {
  if (parts.length === 0) {
    return ends;
  }
  const gap = indent ? `\n${before}${indent}` : "";
  return `${ends[0]}${gap}${parts.join(`,${gap}`)}${indent ? `\n${before}` : ""}${ends[1]}`;
}
