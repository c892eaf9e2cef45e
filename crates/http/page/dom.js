// Creates and updates elements. Content is set only as text and attributes, never as markup. Updates patch the
// existing elements, so that focus, selection and expanded details survive.

import { WORDS } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const SVG_ELEMENTS = new Set(["svg", "g", "rect", "line", "path", "circle", "text", "title"]);
/** Attributes that the user changes; updates leave them alone. */
const USER_ATTRIBUTES = new Set(["open", "value"]);

export const by_id = (id) => document.getElementById(id);

/**
 * Creates an element. An attribute of `true` is set without a value; `false`, `null` and `undefined` omit it, and
 * a function becomes an event listener. Children are nodes, text or arrays; `false`, `null` and `undefined` are
 * skipped.
 */
export function h(name, attributes, ...children) {
  const element = SVG_ELEMENTS.has(name)
    ? document.createElementNS(SVG, name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") {
      element.addEventListener(key, value);
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) {
      append(element, child);
    } else if (child instanceof Node) {
      element.append(child);
    } else if (child !== null && child !== undefined && child !== false) {
      element.append(String(child));
    }
  }
}

/** Replaces the children of an element by patching them. `data-key` identifies elements that move. */
export function fill(element, ...children) {
  const next = document.createDocumentFragment();
  append(next, children);
  children_become(element, next);
}

const key_of = (node) => (node.nodeType === 1 ? node.getAttribute("data-key") : null);

function is_alike(old, next) {
  return old.nodeType === next.nodeType && old.nodeName === next.nodeName && key_of(old) === key_of(next);
}

function children_become(old, next) {
  const keyed = new Map();
  for (const child of old.childNodes) {
    const key = key_of(child);
    if (key !== null) {
      keyed.set(key, child);
    }
  }
  let place = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const key = key_of(wanted);
    const known = key === null ? null : keyed.get(key);
    if (known && known.nodeName === wanted.nodeName) {
      if (known === place) {
        place = place.nextSibling;
      } else {
        old.insertBefore(known, place);
      }
      become(known, wanted);
      keyed.delete(key);
    } else if (place && is_alike(place, wanted)) {
      const same = place;
      place = place.nextSibling;
      become(same, wanted);
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
  for (const gone of keyed.values()) {
    gone.remove();
  }
}

function become(old, next) {
  if (old.nodeType !== 1) {
    if (old.data !== next.data) {
      old.data = next.data;
    }
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && !USER_ATTRIBUTES.has(name)) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of [...next.attributes]) {
    if (old.getAttribute(name) !== value && !USER_ATTRIBUTES.has(name)) {
      old.setAttribute(name, value);
    }
  }
  children_become(old, next);
}

/**
 * A scrollable table, labeled by a heading's id. A `#` before a column title right-aligns the title, and a `-` before
 * that hides it on narrow screens, like cells with the class `minor`.
 */
export function table(named_by, heads, rows, more) {
  const head = heads.map((said) => {
    if (said === "") {
      return h("td");
    }
    const [, minor, number, title] = /^(-?)(#?)(.*)$/.exec(said);
    const names = [minor && "minor", number && "number"].filter(Boolean).join(" ");
    return h("th", { scope: "col", class: names || null, title: WORDS[title] }, title);
  });
  return h(
    "div",
    { class: "wide", role: "region", tabindex: "0", "aria-labelledby": named_by, ...more },
    h("table", { "aria-labelledby": named_by }, h("thead", null, h("tr", null, head)), rows),
  );
}
