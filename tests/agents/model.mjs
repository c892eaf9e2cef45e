// The scripted model: decides as a sensible one does, by nothing but what a request shows.
//
// For each step of the task that is not done it takes the shortest way that it can see: call the
// tool, if it is among its tools; or by a tool that calls others, if it has seen the wanted one's
// arguments; or load it by the client's own search, if it has seen its name; or say what it wants to
// a tool that takes tasks or searches; or open the toolbox that is described as fitting; or search
// by words. What several steps need it asks for at once, if the API allows that.

import { taskOf } from './tasks.mjs';

/** How often one thing is tried again where it has not helped. */
const TRIES = 2;
/** Tools that lead to others. */
const OWN = [
    'open_toolbox',
    'use_tool',
    'search_tools',
    'execute_task',
    'get-modular-tools',
    'call-modular-tool',
    'toolman_activate',
];
/** How clients say that they have cut an answer. */
const CUT = /truncated|chars omitted|characters omitted/;

/** What the model says: a text when it is done or stuck, else calls. */
export function answer(seen, world) {
    const task = taskOf(seen.texts);
    if (!task) return { text: 'There is nothing to do.', calls: [] };
    const found = task.steps.map((step) => evidence(step, seen.history));
    if (found.every(Boolean)) return { text: `DONE: ${found.join(', ')}`, calls: [] };
    const calls = [];
    task.steps.forEach((step, index) => {
        if (found[index]) return;
        const given = step.args(found, world);
        const names = Object.keys(given);
        const args = Object.values(given).includes(undefined) ? undefined : given;
        const call = next({ step, args, names, seen });
        if (call) add(calls, call);
    });
    if (calls.length === 0) return { text: 'STUCK: I have no tool for this.', calls: [] };
    return { text: '', calls: seen.parallel ? calls : calls.slice(0, 1) };
}

/** What an answer says that the step was for. */
function evidence(step, history) {
    const results = history.map((call) => step.done.exec(call.result ?? ''));
    return results.find(Boolean)?.[1];
}

/** Adds a call; what asks the same tool for more of the same becomes one call. */
function add(calls, call) {
    const same = calls.find((other) => other.name === call.name && other.list && call.list);
    if (same) {
        for (const item of call.list) if (!same.list.includes(item)) same.list.push(item);
        same.args = same.make(same.list);
    } else if (!calls.some((other) => JSON.stringify(other) === JSON.stringify(call))) {
        calls.push(call);
    }
}

function next(at) {
    // What waits for an earlier answer needs no more than to be known.
    if (!at.args && isKnown(at)) return null;
    return (
        called(at) ??
        used(at) ??
        selected(at) ??
        activated(at) ??
        tasked(at) ??
        searched(at) ??
        loaded(at) ??
        opened(at) ??
        looked(at) ??
        null
    );
}

// --- ways to call ------------------------------------------------------------------------------

/** The tool itself, among the model's tools. */
function called({ step, args, seen }) {
    const tool = seen.tools.find((tool) => isNamed(tool.name, step.tool) && !tool.search);
    if (!tool || !args || tries(seen, tool.name, args) >= TRIES) return undefined;
    return { name: tool.name, args };
}

/** Whether the model knows how to call it, as soon as it has the arguments. */
function isKnown({ step, names, seen }) {
    return (
        seen.tools.some((tool) => isNamed(tool.name, step.tool)) ||
        !!(caller(seen) && signature(step, names, seen))
    );
}

/** Whether a name is the tool's own with something in front, as clients and the workbench put it. */
function isNamed(name, own) {
    // Codex has `_` for every other character.
    const [all, end] = [name, own].map((text) => text.replaceAll('-', '_'));
    return all === end || ['.', '_', ':', '/'].some((mark) => all.endsWith(mark + end));
}

/** By a tool that calls others, once the wanted one's arguments have been seen. */
function used({ step, args, names, seen }) {
    if (!args) return undefined;
    const by = caller(seen);
    const shown = by && signature(step, names, seen);
    if (!shown) return undefined;
    const call = { name: by.name, args: spelled(by, args, shown) };
    return tries(seen, call.name, call.args) < TRIES ? call : undefined;
}

/** The tool that calls others. */
function caller(seen) {
    return tool(seen, 'use_tool') ?? tool(seen, 'call-modular-tool');
}

/** Where the wanted tool is shown with the names of all of its arguments, and what it belongs to. */
function signature(step, names, seen) {
    const places = [
        ...seen.texts.map((text) => ({ text })),
        ...seen.tools.map((tool) => ({ text: tool.description })),
        ...seen.history.map(({ result, args }) => ({ text: result ?? '', asked: args })),
    ];
    for (const { text, asked } of places) {
        const shown = defined(step, names, text) ?? written(step, names, text);
        if (shown) return { ...shown, asked };
    }
    return undefined;
}

/** As a definition: an object with its name, and with its arguments anywhere in it. */
function defined(step, names, text) {
    const lines = text.split('\n').map((line) => parsed(line.replace(/,$/, '')));
    const values = [parsed(text), ...lines].filter((value) => value && typeof value === 'object');
    const keys = names.map((name) => `"${name}"`);
    const find = (value, above) => {
        if (value === null || typeof value !== 'object') return undefined;
        const around = { ...above };
        for (const key of ['toolbox', 'server', 'group']) {
            if (typeof value[key] === 'string') around[key] = value[key];
        }
        const all = JSON.stringify(value);
        if (!keys.every((key) => all.includes(key))) return undefined;
        if (typeof value.name === 'string' && isNamed(value.name, step.tool)) {
            return { name: value.name, around };
        }
        const named = Object.entries(value).find(
            ([key, inner]) => isNamed(key, step.tool) && inner?.inputSchema,
        );
        if (named) return { name: named[0], around };
        return firstOf(Object.values(value), (inner) => find(inner, around));
    };
    return firstOf(values, (value) => find(value, {}));
}

/** In one line: `name(argument: type, …)`. */
function written(step, names, text) {
    const pattern = `((?:[A-Za-z0-9-]+[_./:])*${step.tool})\\(([^)]*)\\)`;
    for (const match of text.matchAll(new RegExp(`(?<![A-Za-z0-9_-])${pattern}`, 'g'))) {
        const isWhole = names.every((name) => new RegExp(`\\b${name}\\b`).test(match[2]));
        if (!isWhole) continue;
        const before = text.slice(0, match.index);
        const line = before.slice(before.lastIndexOf('\n') + 1);
        const member = (key) => new RegExp(`"${key}":\\s*"([^"]+)`).exec(line)?.[1];
        const heading = before.match(/^[\s*#-]*[A-Za-z0-9_/-]+(?: \([^)\n]*\))?:/gm)?.at(-1);
        const above = heading?.replace(/\(.*\)|[^A-Za-z0-9_/-]/g, '').split('/') ?? [];
        const around = {
            toolbox: member('toolbox') ?? above[0],
            server: member('server') ?? above[1],
        };
        return { name: match[1], around, isHeading: !member('toolbox') };
    }
    return undefined;
}

function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

/** What is found in the first value that has it. */
function firstOf(values, find) {
    for (const value of values) {
        const found = find(value);
        if (found) return found;
    }
    return undefined;
}

/** The arguments of a tool that calls others, by the members that its schema has. */
function spelled(caller, args, { name, around, asked, isHeading }) {
    const known = asked?.toolbox ?? asked?.group;
    const toolbox = isHeading && known ? known : (around.toolbox ?? around.group ?? known);
    const server = around.server;
    const properties = caller.schema.properties ?? {};
    if (properties.group) return { group: toolbox, name, args };
    const whole = { toolbox, ...(server ? { server } : {}), tool: name };
    if (properties.tool?.type === 'string') {
        const rest = ['toolbox', 'server'].filter((key) => properties[key] && whole[key]);
        const place = Object.fromEntries(rest.map((key) => [key, whole[key]]));
        return { ...place, tool: name, arguments: args };
    }
    return properties.tool ? { tool: whole, arguments: args } : { ...whole, arguments: args };
}

/** By a tool that takes a task in words, with arguments once it has asked for them, and with the tool
 * once it has offered that. */
function tasked({ step, args, names, seen }) {
    const doer = tool(seen, 'execute_task');
    if (!doer || !args) return undefined;
    const before = seen.history.filter(
        (call) => call.name === doer.name && call.args.task === step.query,
    );
    if (before.length === 0) return { name: doer.name, args: { task: step.query } };
    if (before.length >= TRIES) return undefined;
    const results = before.map(({ result }) => result ?? '');
    // Some clients put what fails into a text of theirs, in quotes.
    const offers = /"tool\\*":\s*\\*"([^"\\]+)/g;
    const offered = results.flatMap((result) => [...result.matchAll(offers)]);
    const meant = offered.map((match) => match[1]).find((name) => isNamed(name, step.tool));
    if (meant) {
        return { name: doer.name, args: { task: step.query, tool: meant, arguments: args } };
    }
    const asked = names.map((name) => new RegExp(`\\b${name}\\b`));
    const isAsked = results.some((result) => asked.every((name) => name.test(result)));
    return isAsked
        ? { name: doer.name, args: { task: step.query, arguments: args } }
        : undefined;
}

// --- ways to find ------------------------------------------------------------------------------

/** The client's own search, where the wanted tool's whole name is to be seen. */
function selected({ step, seen }) {
    const search = seen.tools.find((tool) => tool.search === 'select');
    if (!search) return undefined;
    const name = new RegExp(`\\bmcp__[A-Za-z0-9_-]*_${step.tool}(?![A-Za-z0-9_-])`);
    const found = [...seen.texts, ...seen.history.map((call) => call.result ?? '')]
        .map((text) => name.exec(text)?.[0])
        .find(Boolean);
    if (!found || seen.tools.some((tool) => tool.name === found)) return undefined;
    const make = (list) => ({ query: `select:${list.join(',')}`, max_results: list.length });
    const before = seen.history.filter(
        ({ name, args }) => name === search.name && args.query.includes(found),
    );
    return before.length < TRIES
        ? { name: search.name, args: make([found]), list: [found], make }
        : undefined;
}

/** A catalog whose entries can be switched on; what it leaves out is asked for first. */
function activated({ step, seen }) {
    const activate = tool(seen, 'toolman_activate');
    if (!activate) return undefined;
    const before = seen.history.filter((call) => call.name === activate.name);
    const name = new RegExp(`(?<![A-Za-z0-9_-])(?:[A-Za-z0-9-]+_)*${step.tool}(?![A-Za-z0-9_-])`);
    const catalog = [activate.description, ...before.map((call) => call.result ?? '')].join('\n');
    const found = name.exec(catalog)?.[0];
    if (found) {
        const make = (list) => ({ tools_on: list });
        const isNew = !before.some((call) => call.args.tools_on?.includes(found));
        return isNew
            ? { name: activate.name, args: make([found]), list: [found], make }
            : undefined;
    }
    if (!/"?list"?/.test(catalog)) return undefined;
    const all = [catalog, ...seen.texts].join('\n');
    const fits = listed(catalog).map((name) => ({ name, fit: fit(name, all, step) }));
    const best = fits.sort((one, other) => other.fit - one.fit)[0];
    const globs = best?.fit > 0 ? [`${best.name}_*`, '*'] : ['*'];
    const glob = globs.find((glob) => !before.some((call) => call.args.list === glob));
    return glob ? { name: activate.name, args: { list: glob } } : undefined;
}

/** A search of the workbench's. */
function searched({ step, seen }) {
    const search = tool(seen, 'search_tools');
    if (!search) return undefined;
    const make = (list) => ({ queries: list });
    const before = seen.history.some(
        (call) => call.name === search.name && call.args.queries?.includes(step.query),
    );
    return before
        ? undefined
        : { name: search.name, args: make([step.query]), list: [step.query], make };
}

/** The toolbox, or the group, that is described as fitting best, and after it the others. */
function opened({ step, args, seen }) {
    const open = tool(seen, 'open_toolbox') ?? tool(seen, 'get-modular-tools');
    if (!open) return undefined;
    const key = open.schema.properties?.group ? 'group' : 'toolbox';
    const property = open.schema.properties?.[key] ?? {};
    const all = [open.description, ...seen.texts, property.description ?? ''].join('\n');
    const names = property.enum ?? listed(all);
    const fits = names.map((name) => ({ name, fit: fit(name, all, step) }));
    fits.sort((one, other) => other.fit - one.fit);
    // Where nothing says what a toolbox is for, one after the other.
    const worth = fits.filter(({ fit }) => fit > 0 || fits[0].fit === 0);
    for (const { name } of worth) {
        const before = seen.history.filter(
            (call) => call.name === open.name && call.args[key] === name,
        );
        if (before.length === 0) return { name: open.name, args: { [key]: name } };
        // It may be there, and wait for an earlier answer.
        if (!args && before.some(({ result }) => result?.includes(step.tool))) continue;
        // What the client has cut is asked for in less detail; what has not come, once more.
        const wasCut = before.some(({ result }) => CUT.test(result ?? ''));
        const less = wasCut && open.schema.properties?.detail ? { detail: 'signatures' } : {};
        if (before.length < TRIES && name === fits[0].name) {
            return { name: open.name, args: { [key]: name, ...less } };
        }
    }
    return undefined;
}

/** Names at the beginning of lines such as `code: …` or `- code (2 servers): …`. */
function listed(text) {
    return [...text.matchAll(/^\s*[-*]?\s*([a-z][a-z0-9_-]*)(?: \([^)\n]*\))?: /gm)].map(
        (match) => match[1],
    );
}

/** How many of the step's words stand in what is said of a toolbox, and in its name. */
function fit(name, text, step) {
    const forms = [`${name}(?: \\([^)\\n]*\\))?: ([^\\n]*)`, `${name} \\(([^)\\n]*)`];
    const said = forms.flatMap((form) => [
        ...text.matchAll(new RegExp(`(?:^|[\\s\\-*])${form}`, 'gm')),
    ]);
    const lines = [name, ...said.map((match) => match[1])]
        .join('\n')
        .toLowerCase();
    return step.words.filter((word) => lines.includes(word)).length;
}

/** The client's own search, for a tool of the workbench's that is named but has not been loaded. */
function loaded({ seen }) {
    const search = seen.tools.find((tool) => tool.search === 'words');
    if (!search) return undefined;
    const said = [
        ...seen.texts,
        ...seen.tools.map((tool) => tool.description),
        ...seen.history.map((call) => call.result ?? ''),
    ].join('\n');
    const missing = OWN.filter((own) => !tool(seen, own) && new RegExp(`\\b${own}\\b`).test(said));
    const query = missing.join(' ');
    if (
        !query ||
        seen.history.some(({ name, args }) => name === search.name && args.query === query)
    ) {
        return undefined;
    }
    return { name: search.name, args: { query } };
}

/** The client's own search, by words: those of the step, then those of what the model is told of. */
function looked({ step, args, seen }) {
    const search = seen.tools.find((tool) => tool.search === 'words');
    // What waits for an earlier answer may be found with what gives it.
    if (!search || !args) return undefined;
    const queries = [step.query, 'open a toolbox, use a tool of a toolbox'];
    const query = queries.find(
        (query) =>
            !seen.history.some((call) => call.name === search.name && call.args.query === query),
    );
    return query ? { name: search.name, args: { query } } : undefined;
}

// --- what is there -----------------------------------------------------------------------------

function tool(seen, own) {
    return seen.tools.find((tool) => isNamed(tool.name, own));
}

function tries(seen, name, args) {
    const text = JSON.stringify(args);
    return seen.history.filter((call) => call.name === name && JSON.stringify(call.args) === text)
        .length;
}
