// Builds a form from the JSON schema of a tool's arguments. Each field produces JSON text, so that numbers keep
// their digits. Schemas without a matching control get a JSON field.

import { h } from "./dom.js";
import { joined, parse, RawNumber, write } from "./json.js";

const MAX_DEPTH = 6;
const MAX_ITEMS = 200;
const MAX_CHOICES = 500;
/** Maximum number of fields and choices in a form. A schema can refer to itself, so a short one can ask for any number. */
const MAX_CONTROLS = 5000;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const INTEGER = /^-?(0|[1-9]\d*)$/;

let counted = 0;

/** Invalid input; `field` is the control. */
export class FieldError extends Error {
  constructor(message, field) {
    super(message);
    this.field = field;
  }
}

/** The schema needs more fields than a form can have. */
class FormSizeError extends Error {
  constructor() {
    super(`the schema needs more than ${MAX_CONTROLS} fields and choices`);
  }
}

/** Counts `number` controls of the form. Text and members of the schema count, too: many fields can refer to them. */
function use(context, number, weight = 0) {
  context.size.used += number + Math.floor(weight / 100);
  if (context.size.used > MAX_CONTROLS) {
    throw new FormSizeError();
  }
}

/** Builds the form, or a JSON field and the reason if the form would be too large. */
function top_field(root) {
  try {
    return { fields: object_field(root, { root, size: { used: 0 }, depth: 0, is_required: true, name: "Arguments", is_top: true }) };
  } catch (error) {
    if (!(error instanceof FormSizeError)) {
      throw error;
    }
    return { why: `Enter the arguments as JSON: ${error.message}.` };
  }
}

/**
 * Returns `element`, the form, and `text()`, which returns the input as JSON text or throws `FieldError`.
 */
export function arguments_form(schema) {
  const root = { ...(is_object(schema) ? schema : {}) };
  const { fields, why } = top_field(root);
  const raw = json_field({}, { name: "Arguments as JSON", is_required: true, size: { used: 0 } });
  if (!fields) {
    raw.set_text("{}");
    return { element: h("div", { class: "arguments" }, h("p", { class: "faint" }, why), raw.element), text: () => raw.text() ?? "{}" };
  }
  const toggle = h("input", { type: "checkbox", id: next_id() });
  const said = h("p", { class: "bad", role: "alert" });
  const drawn = h("div", null, fields.element);
  const typed = h("div", { hidden: true }, raw.element);
  toggle.addEventListener("change", () => {
    said.textContent = "";
    try {
      if (toggle.checked) {
        raw.set_text(fields.text() ?? "{}");
      } else {
        const value = parse(raw.text() ?? "{}");
        fields.set(value);
        const is_empty = is_object(value) && Object.keys(value).length === 0;
        if (!is_empty && write(sorted(parse(fields.text() ?? "{}"))) !== write(sorted(value))) {
          throw new FieldError("the form has no field for some of this JSON, so it stays as JSON");
        }
      }
    } catch (error) {
      if (!toggle.checked) {
        toggle.checked = true;
      } else {
        raw.set_text("{}");
      }
      said.textContent = error.message;
    }
    drawn.hidden = toggle.checked;
    typed.hidden = !toggle.checked;
  });
  return {
    element: h("div", { class: "arguments" }, drawn, typed, said, h("p", null, toggle, " ", h("label", { for: toggle.id }, "Edit as JSON"))),
    text: () => (toggle.checked ? raw.text() : fields.text()) ?? "{}",
  };
}

/** Sorts the members of objects by name, so that two values can be compared as text. */
function sorted(value) {
  if (Array.isArray(value)) {
    return value.map(sorted);
  }
  return is_object(value) ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])])) : value;
}

const next_id = () => `field-${(counted += 1)}`;
const is_object = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof RawNumber);

/** Resolves local references and simplifies `anyOf`, `oneOf` and `allOf`: nullable types, and lists of `const`. */
function resolved(schema, root, tries = 8) {
  if (!is_object(schema) || tries === 0) {
    return {};
  }
  if (typeof schema.$ref === "string") {
    let found = schema.$ref.startsWith("#") ? root : undefined;
    for (const part of schema.$ref.slice(1).split("/").slice(1)) {
      const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
      found = is_object(found) && Object.hasOwn(found, name) ? found[name] : undefined;
    }
    const { $ref: _, ...rest } = schema;
    return found === undefined ? {} : resolved({ ...found, ...rest }, root, tries - 1);
  }
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    const options = Array.isArray(schema[key]) ? schema[key] : [];
    const left = options.filter((option) => option?.type !== "null");
    if (left.length === 1) {
      const { [key]: _, ...rest } = schema;
      return resolved({ ...left[0], ...rest }, root, tries - 1);
    }
    if (key !== "allOf" && left.length > 1 && left.every((option) => is_object(option) && "const" in option)) {
      const { [key]: _, ...rest } = schema;
      return { ...rest, enum: left.map((option) => option.const) };
    }
  }
  return schema;
}

function field(schema, context) {
  const known = resolved(schema, context.root);
  const members = Object.keys(known).length + Object.keys(is_object(known.properties) ? known.properties : {}).length;
  use(context, 1, members + ("default" in known ? write(known.default).length / 10 : 0));
  const type = Array.isArray(known.type) ? known.type.filter((name) => name !== "null") : [known.type];
  const is_plain = !["anyOf", "oneOf", "allOf", "not", "if"].some((key) => key in known);
  if (Array.isArray(known.enum) && known.enum.length <= MAX_CHOICES) {
    return choice_field(known, known.enum.map((value) => [write(value), label_of(value)]), context);
  }
  if ("const" in known) {
    return choice_field(known, [[write(known.const), label_of(known.const)]], context);
  }
  if (type.length === 1 && is_plain && context.depth < MAX_DEPTH) {
    switch (type[0]) {
      case "string":
        return string_field(known, context);
      case "number":
      case "integer":
        return number_field(known, type[0], context);
      case "boolean":
        return choice_field(known, [["true", "yes"], ["false", "no"]], context);
      case "array":
        return is_object(known.items) && !("prefixItems" in known) ? array_field(known, context) : json_field(known, context);
      case "object":
        return is_object(known.properties) && Object.keys(known.properties).length > 0 ? object_field(known, context) : json_field(known, context);
    }
  }
  return json_field(known, context);
}

const label_of = (value) => (typeof value === "string" ? value : write(value));

function hint_of(schema, is_required) {
  const number = (value) => (value instanceof RawNumber ? value.text : String(value));
  const bounds = [
    ["minimum", "at least"],
    ["exclusiveMinimum", "more than"],
    ["maximum", "at most"],
    ["exclusiveMaximum", "less than"],
    ["minLength", "minimum length:"],
    ["maxLength", "maximum length:"],
    ["pattern", "pattern:"],
    ["format", "format:"],
  ].filter(([key]) => ["string", "number"].includes(typeof schema[key]) || schema[key] instanceof RawNumber);
  const parts = [];
  if (typeof schema.description === "string") {
    parts.push(schema.description);
  }
  if (bounds.length > 0) {
    parts.push(bounds.map(([key, words]) => `${words} ${number(schema[key])}`).join(", "));
  }
  if (schema.default !== undefined && !is_required) {
    parts.push(`default: ${write(schema.default).slice(0, 200)}`);
  }
  return parts.join(" · ").slice(0, 2000);
}

function labelled(control, schema, context, after) {
  const hint = hint_of(schema, context.is_required);
  const id = next_id();
  control.id = id;
  if (hint) {
    control.setAttribute("aria-describedby", `${id}-hint`);
  }
  if (context.is_required) {
    control.setAttribute("aria-required", "true");
  }
  control.addEventListener("input", () => control.removeAttribute("aria-invalid"));
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, context.name, context.is_required && h("span", { class: "faint" }, " (required)")),
    control,
    after,
    hint && h("p", { class: "faint hint", id: `${id}-hint` }, hint),
  );
}

function prefilled(schema, context) {
  return context.is_required ? schema.default : undefined;
}

function missing(context, control) {
  return new FieldError(`${context.name} is required`, control);
}

function string_field(schema, context) {
  const is_long = !["date", "date-time", "time", "email", "uri", "uuid"].includes(schema.format);
  const control = is_long ? h("textarea", { rows: 1, spellcheck: "false" }) : h("input", { type: "text", spellcheck: "false" });
  const grow = () => (control.rows = Math.min(12, control.value.split("\n").length));
  if (is_long) {
    control.addEventListener("input", grow);
  }
  const set = (value) => {
    control.value = typeof value === "string" ? value : "";
    if (is_long) {
      grow();
    }
  };
  set(prefilled(schema, context));
  return {
    element: labelled(control, schema, context),
    set,
    text: () => (control.value === "" && !context.is_required ? undefined : JSON.stringify(control.value)),
  };
}

function number_field(schema, type, context) {
  const control = h("input", { type: "text", inputmode: type === "integer" ? "numeric" : "decimal", autocomplete: "off" });
  const set = (value) => (control.value = typeof value === "number" || value instanceof RawNumber ? write(value) : "");
  set(prefilled(schema, context));
  return {
    element: labelled(control, schema, context),
    set,
    text: () => {
      const text = control.value.trim();
      if (text === "") {
        if (context.is_required) {
          throw missing(context, control);
        }
        return undefined;
      }
      if (!(type === "integer" ? INTEGER : NUMBER).test(text)) {
        throw new FieldError(`${context.name} must be ${type === "integer" ? "an integer, such as 12" : "a number, such as 1.5"}`, control);
      }
      return text;
    },
  };
}

function choice_field(schema, choices, context) {
  use(context, choices.length, choices.reduce((sum, [value]) => sum + value.length / 10, 0));
  const control = h(
    "select",
    null,
    !(context.is_required && choices.length === 1) && h("option", { value: "" }, context.is_required ? "select…" : "not set"),
    choices.map(([value, said]) => h("option", { value }, said)),
  );
  const set = (value) => {
    const text = value === undefined ? "" : write(value);
    control.value = choices.some(([known]) => known === text) ? text : control.options[0].value;
  };
  set(prefilled(schema, context));
  return {
    element: labelled(control, schema, context),
    set,
    text: () => {
      if (control.value === "") {
        if (context.is_required) {
          throw missing(context, control);
        }
        return undefined;
      }
      return control.value;
    },
  };
}

function json_field(schema, context) {
  const control = h("textarea", { rows: 3, spellcheck: "false", class: "json", placeholder: "JSON" });
  const set_text = (text) => {
    control.value = text;
    control.rows = Math.max(3, Math.min(16, text.split("\n").length));
  };
  const set = (value) => set_text(value === undefined ? "" : write(value, "  "));
  set(prefilled(schema, context));
  return {
    element: labelled(control, schema, context),
    set,
    set_text: (text) => set(parse(text)),
    text: () => {
      const text = control.value.trim();
      if (text === "") {
        if (context.is_required) {
          throw missing(context, control);
        }
        return undefined;
      }
      try {
        parse(text);
      } catch (error) {
        throw new FieldError(`${context.name} is not valid JSON: ${error.message}`, control);
      }
      return text;
    },
  };
}

function object_field(schema, context) {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const members = Object.entries(is_object(schema.properties) ? schema.properties : {}).slice(0, MAX_ITEMS);
  const fields = members.map(([key, own]) => [
    key,
    field(own, { root: context.root, size: context.size, depth: context.depth + 1, name: key, is_required: required.includes(key) && (context.is_required || context.is_top) }),
  ]);
  const inner = fields.map(([, own]) => own.element);
  const element = context.is_top
    ? h("div", null, inner.length > 0 ? inner : h("p", { class: "faint" }, "The schema lists no arguments."))
    : h("fieldset", null, h("legend", null, context.name), schema.description && h("p", { class: "faint hint" }, String(schema.description).slice(0, 2000)), inner);
  return {
    element,
    set: (value) => {
      for (const [key, own] of fields) {
        own.set(is_object(value) && Object.hasOwn(value, key) ? value[key] : undefined);
      }
    },
    text: () => {
      const parts = fields.flatMap(([key, own]) => {
        const text = own.text();
        return text === undefined ? [] : [`${JSON.stringify(key)}:${text}`];
      });
      return parts.length === 0 && !context.is_required ? undefined : joined(parts, "{}");
    },
  };
}

function array_field(schema, context) {
  const list = h("div", { class: "items" });
  const items = [];
  const add = (value) => {
    if (items.length >= MAX_ITEMS) {
      return;
    }
    const before = context.size.used;
    let own;
    try {
      own = field(schema.items, { root: context.root, size: context.size, depth: context.depth + 1, name: `${context.name} ${items.length + 1}`, is_required: true });
      if (value !== undefined) {
        own.set(value);
      }
    } catch (error) {
      context.size.used = before;
      throw error;
    }
    const item = { own, controls: context.size.used - before };
    const remove = () => {
      context.size.used -= item.controls;
      items.splice(items.indexOf(item), 1);
      row.remove();
      more.focus();
    };
    const row = h("div", { class: "item" }, own.element, h("button", { type: "button", click: remove, "aria-label": `Remove ${context.name} ${items.length + 1}` }, "Remove"));
    item.row = row;
    items.push(item);
    list.append(row);
  };
  const more = h("button", {
    type: "button",
    click: () => {
      try {
        add();
        problem.textContent = "";
      } catch (error) {
        problem.textContent = `Use “Edit as JSON” for more: ${error.message}.`;
      }
      items.at(-1)?.row.querySelector("input, select, textarea")?.focus();
    },
  }, `Add to ${context.name}`);
  const problem = h("p", { class: "bad", role: "alert" });
  const set = (value) => {
    for (const { row, controls } of items.splice(0)) {
      context.size.used -= controls;
      row.remove();
    }
    for (const item of Array.isArray(value) ? value : []) {
      add(item);
    }
  };
  set(prefilled(schema, context));
  const hint = hint_of(schema, context.is_required);
  return {
    element: h("fieldset", null, h("legend", null, context.name, context.is_required && h("span", { class: "faint" }, " (required)")), hint && h("p", { class: "faint hint" }, hint), list, more, problem),
    set,
    text: () => {
      const parts = items.map(({ own }) => own.text() ?? "null");
      return parts.length === 0 && !context.is_required ? undefined : joined(parts, "[]");
    },
  };
}
