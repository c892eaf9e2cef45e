// The scripted model. Like a real model, it decides only from the contents of a request.
//
// For each unfinished step of the task it takes the shortest available path: call the tool, if it is in the
// tool list; call it through another tool such as `use_tool`, if its arguments are known; load it with the
// client's own tool search, if its name is known; describe the step to `execute_task` or `search_tools`; open
// the toolbox with the best matching description; or search with the client's tool search by words. If the API
// allows parallel calls, the requests of several steps go out together.

import { taskOf } from './tasks.mjs';

/** Attempts per call that made no progress. */
const TRIES = 2;
/** Tools that discover or call other tools. */
const OWN = [
    'open_toolbox',
    'use_tool',
    'search_tools',
    'execute_task',
    'get-modular-tools',
    'call-modular-tool',
    'toolman_activate',
];
/** Clients' markers for a truncated result. */
const CUT = /truncated|chars omitted|characters omitted|Output too large/;

/** The model's response: calls, or text if the task is finished or stuck. */
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
        for (const call of next({ step, args, names, seen })) add(calls, call);
    });
    if (calls.length === 0) return { text: 'STUCK: I have no tool for this.', calls: [] };
    return { text: '', calls: seen.parallel ? calls : calls.slice(0, 1) };
}

/** The part of a result that completes the step. */
function evidence(step, history) {
    const results = history.map((call) => step.done.exec(call.result ?? ''));
    return results.find(Boolean)?.[1];
}

/** Adds a call, or merges its list into an existing call of the same tool. */
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
    // A step without arguments yet waits for an earlier result; until then, knowing the tool is enough.
    if (!at.args && isKnown(at)) return [];
    const call =
        called(at) ??
        used(at) ??
        selected(at) ??
        activated(at) ??
        tasked(at) ??
        searched(at) ??
        loaded(at) ??
        opened(at) ??
        looked(at);
    // A script that looks for `use_tool` can open the toolbox, too.
    const isLookup = call && tool(at.seen, call.name)?.isAhead && call.args.query !== at.step.query;
    return (isLookup ? [call, opened(at)] : [call]).filter(Boolean);
}

// --- calling -----------------------------------------------------------------------------------

/** Calls the tool directly. */
function called({ step, args, seen }) {
    const tool = seen.tools.find((tool) => isNamed(tool.name, step.tool) && !tool.search);
    if (!tool || !args || tries(seen, tool.name, args) >= TRIES) return undefined;
    // A script prints only the field that is needed, if the tool's declaration has it.
    const field = tool.isTyped && hasField(step, tool.description) ? { field: step.field } : {};
    return { name: tool.name, args, ...field };
}

/** True if a text names all parts of the field that the step needs. */
function hasField({ field }, text) {
    const keys = field?.split('/').slice(1);
    return !!keys?.every((key) => new RegExp(`\\b${key}\\b`).test(text));
}

/** True if the model could call the tool, given the arguments. */
function isKnown({ step, names, seen }) {
    return (
        seen.tools.some((tool) => isNamed(tool.name, step.tool)) ||
        !!(caller(seen) && signature(step, names, seen))
    );
}

/** True if a name is the tool's own name, possibly with a client's or the workbench's prefix. */
function isNamed(name, own) {
    // Codex replaces other characters with `_`.
    const [all, end] = [name, own].map((text) => text.replaceAll('-', '_'));
    return all === end || ['.', '_', ':', '/'].some((mark) => all.endsWith(mark + end));
}

/** Calls the tool through `use_tool` or similar, once its arguments are known. */
function used({ step, args, names, seen }) {
    if (!args) return undefined;
    const by = caller(seen);
    const shown = by && signature(step, names, seen);
    if (!shown) return undefined;
    // Selects the field only after its path is known: from the tool's output schema, or from an earlier result.
    const canSelect = by.schema.properties?.select && hasField(step, told(step, seen));
    const select = canSelect ? { select: [step.field] } : {};
    const call = { name: by.name, args: { ...spelled(by, args, shown), ...select } };
    return tries(seen, call.name, call.args) < TRIES ? call : undefined;
}

/** What the request says about the tool and its results. */
function told(step, seen) {
    const calls = seen.history.filter(
        ({ args, result }) => `${JSON.stringify(args)}${result}`.includes(step.tool),
    );
    const tools = seen.tools.filter(({ description }) => description.includes(step.tool));
    return [...calls.map((call) => call.result), ...tools.map((tool) => tool.description)].join('\n');
}

function caller(seen) {
    return tool(seen, 'use_tool') ?? tool(seen, 'call-modular-tool');
}

/** Finds text that shows the tool with the names of all arguments; returns it with the server it belongs to. */
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

/** Matches a definition: a JSON object with the tool's name that contains its arguments. */
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

/** Matches a signature: `name(argument: type, …)`. */
function written(step, names, text) {
    const pattern = `((?:[A-Za-z0-9-]+[_./:])*${step.tool})\\(([^)]*)\\)`;
    for (const match of text.matchAll(new RegExp(`(?<![A-Za-z0-9_-])${pattern}`, 'g'))) {
        const isWhole = names.every((name) => new RegExp(`\\b${name}\\b`).test(match[2]));
        if (!isWhole) continue;
        const before = text.slice(0, match.index);
        const line = before.slice(before.lastIndexOf('\n') + 1);
        // Some clients put all lines of a result into one.
        const member = (key) => [...line.matchAll(new RegExp(`"${key}":\\s*"([^"]+)`, 'g'))].at(-1)?.[1];
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

/** The first defined result of `find`. */
function firstOf(values, find) {
    for (const value of values) {
        const found = find(value);
        if (found) return found;
    }
    return undefined;
}

/** The arguments for `use_tool` or similar, in the shape that its schema requires. */
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

/** Calls `execute_task`: adds arguments after it has asked for them, and the tool after it has offered the tool. */
function tasked({ step, args, names, seen }) {
    const doer = tool(seen, 'execute_task');
    if (!doer || !args) return undefined;
    const before = seen.history.filter(
        (call) => call.name === doer.name && call.args.task === step.query,
    );
    if (before.length === 0) return { name: doer.name, args: { task: step.query } };
    if (before.length >= TRIES) return undefined;
    const results = before.map(({ result }) => result ?? '');
    // Some clients quote an error inside their own text.
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

// --- finding -----------------------------------------------------------------------------------

/** Loads the tool by its full name with the client's tool search. */
function selected({ step, seen }) {
    return byName(seen, step.tool);
}

/** Loads a tool by its full name, if the client's tool search takes names and the request shows this one. */
function byName(seen, own) {
    const search = seen.tools.find((tool) => tool.search in ASKED);
    if (!search) return undefined;
    const { shown, make } = ASKED[search.search];
    const found = [...seen.texts, ...seen.history.map((call) => call.result ?? '')]
        .map((text) => shown(own).exec(text)?.[0])
        .find(Boolean);
    if (!found || tool(seen, found)) return undefined;
    const before = seen.history.filter(
        ({ name, args }) => name === search.name && JSON.stringify(args).includes(found),
    );
    return before.length < TRIES
        ? { name: search.name, args: make([found]), list: [found], make }
        : undefined;
}

/** How a request shows a hidden tool of this name, and how the client's tool search takes names. */
const ASKED = {
    select: {
        shown: (own) => new RegExp(`\\bmcp__[A-Za-z0-9_-]*_${own}(?![A-Za-z0-9_-])`),
        make: (list) => ({ query: `select:${list.join(',')}`, max_results: list.length }),
    },
    // A list of names, with or without the server's name.
    pattern: {
        shown: (own) => new RegExp(`(?<=^- )(?:[A-Za-z0-9_-]+-)?${own}$`, 'm'),
        make: (list) => ({ pattern: list.join('|') }),
    },
};

/** Activates the tool with `toolman_activate`, after requesting the entries that its list omits. */
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

/** Calls the workbench's `search_tools`. */
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

/** Opens the toolboxes or groups by descending match of their descriptions. */
function opened({ step, args, seen }) {
    const open = tool(seen, 'open_toolbox') ?? tool(seen, 'get-modular-tools');
    if (!open) return undefined;
    const key = open.schema.properties?.group ? 'group' : 'toolbox';
    const property = open.schema.properties?.[key] ?? {};
    const all = [open.description, ...seen.texts, property.description ?? ''].join('\n');
    const names = property.enum ?? listed(all);
    const fits = names.map((name) => ({ name, fit: fit(name, all, step) }));
    fits.sort((one, other) => other.fit - one.fit);
    // If no description matches, try every toolbox in turn.
    const worth = fits.filter(({ fit }) => fit > 0 || fits[0].fit === 0);
    for (const { name } of worth) {
        const before = seen.history.filter(
            (call) => call.name === open.name && call.args[key] === name,
        );
        if (before.length === 0) return { name: open.name, args: { [key]: name } };
        // The tool may already be known and only wait for an earlier result.
        if (!args && before.some(({ result }) => result?.includes(step.tool))) continue;
        // After a truncated result, ask for less detail; after an unhelpful one, repeat the request.
        const wasCut = before.some(({ result }) => CUT.test(result ?? ''));
        const less = wasCut && open.schema.properties?.detail ? { detail: 'signatures' } : {};
        if (before.length < TRIES && name === fits[0].name) {
            return { name: open.name, args: { [key]: name, ...less } };
        }
    }
    return undefined;
}

/** Names at the start of lines such as `code: …` or `- code (2 servers): …`. */
function listed(text) {
    return [...text.matchAll(/^\s*[-*]?\s*([a-z][a-z0-9_-]*)(?: \([^)\n]*\))?: /gm)].map(
        (match) => match[1],
    );
}

/** The number of the step's words in a toolbox's name and description. */
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

/** Loads one of the workbench's own tools with the client's tool search, if the request names it. */
function loaded({ seen }) {
    const named = firstOf(OWN, (own) => !tool(seen, own) && byName(seen, own));
    if (named) return named;
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

/** Searches with the client's tool search: for the step, then for the workbench's own tools. */
function looked({ step, args, seen }) {
    const search = seen.tools.find((tool) => tool.search === 'words');
    // While arguments are missing, the search for the step that provides them may also find this tool. A script can
    // search for all tools at once.
    if (!search || !(args || search.isAhead)) return undefined;
    const queries = [step.query, 'open a toolbox, use a tool of a toolbox'];
    const query = queries.find(
        (query) =>
            !seen.history.some((call) => call.name === search.name && call.args.query === query),
    );
    return query ? { name: search.name, args: { query } } : undefined;
}

// --- helpers -----------------------------------------------------------------------------------

function tool(seen, own) {
    return seen.tools.find((tool) => isNamed(tool.name, own));
}

function tries(seen, name, args) {
    const text = JSON.stringify(args);
    return seen.history.filter((call) => call.name === name && JSON.stringify(call.args) === text)
        .length;
}
