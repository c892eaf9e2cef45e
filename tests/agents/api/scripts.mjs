// Code mode: the model writes scripts that call tools as functions.
//
// Such a request lists none of the tools: `ALL_TOOLS` has their names and descriptions, each with a declaration in
// TypeScript. For the scripted model, `ALL_TOOLS` is a tool search, the declarations that a script has printed are
// the tools, and each line of a script is a call.

const SEARCH = 'ALL_TOOLS';
/** As many tools as other clients' searches return. */
const HITS = 5;

/** What a model writes to find tools: those with most of the words, names first. */
const FINDER = `const shown = new Set();
const find = (query) => {
  const words = query.toLowerCase().split(" ").filter((word) => !["a", "an", "the", "of", "for", "to", "on"].includes(word));
  const fit = ({ name, description }) =>
    words.reduce((sum, word) => sum + (name.includes(word) ? 3 : 0) + (description.toLowerCase().includes(word) ? 1 : 0), 0);
  const hits = ALL_TOOLS.map((tool) => [fit(tool), tool]).filter(([fit]) => fit > 0).sort((a, b) => b[0] - a[0]);
  const best = hits.map(([, tool]) => tool).slice(0, ${HITS}).filter(({ name }) => !shown.has(name) && shown.add(name));
  return best.map((tool) => "### " + tool.name + "\\n" + tool.description).join("\\n\\n");
};`;

/** A script with these calls, each of which prints its result. */
export function script(calls) {
    const lines = calls.map(({ name, args, field }) => {
        if (name === SEARCH) return `text(find(${JSON.stringify(args.query)}));`;
        const part = field ? `structuredContent${field.split('/').join('?.')}` : undefined;
        const shown = part ?? 'content.map((part) => part.text).join("\\n")';
        return `text((await tools.${name}(${JSON.stringify(args)})).${shown});`;
    });
    const isSearch = calls.some(({ name }) => name === SEARCH);
    return [...(isSearch ? [FINDER] : []), ...lines].join('\n');
}

/** The calls of such a script. */
export function callsOf(script) {
    return script.split('\n').flatMap((line) => {
        const query = /^text\(find\((.*)\)\);$/.exec(line)?.[1];
        if (query) return [{ name: SEARCH, args: { query: JSON.parse(query) } }];
        const call = /^text\(\(await tools\.(\w+)\((.*)\)\)\.(?:content\.map|structuredContent)/.exec(line);
        return call ? [{ name: call[1], args: JSON.parse(call[2]) }] : [];
    });
}

/** What the model has seen, with the tools that its scripts have found and the calls that they made. */
export function inScripts(seen, runs) {
    const history = [...seen.history];
    for (const { script, outputs } of runs) {
        // The first part says how the script ended.
        const printed = outputs.slice(1).map((part) => part.text ?? '');
        callsOf(script).forEach((call, index) => {
            const failure = outputs[0]?.text ?? outputs[0] ?? '';
            history.push({ ...call, result: printed[index] ?? String(failure) });
        });
    }
    const found = history.filter((call) => call.name === SEARCH).flatMap((call) => declared(call.result));
    const search = { name: SEARCH, description: '', schema: {}, search: 'words', isAhead: true };
    return { ...seen, tools: [...seen.tools, search, ...found], history, parallel: true };
}

/** The tools that a search has printed. */
function declared(printed) {
    return printed
        .split(/^### /m)
        .slice(1)
        .map((text) => {
            const name = text.slice(0, text.indexOf('\n'));
            const description = text.slice(name.length + 1);
            return { name, description, schema: { properties: parameters(name, description) }, isTyped: true };
        });
}

/** The parameters in a declaration: a name, two spaces deep, and a type. */
function parameters(name, description) {
    const declaration = description.slice(description.lastIndexOf(`${name}(args: {`));
    const inner = declaration.slice(0, declaration.search(/^\}\): Promise/m));
    const lines = [...inner.matchAll(/^ {2}(\w+)\??: (.*)$/gm)];
    return Object.fromEntries(lines.map(([, key, type]) => [key, schemaOf(type)]));
}

function schemaOf(type) {
    const choices = [...type.matchAll(/"([^"]*)"/g)].map((match) => match[1]);
    if (choices.length > 0) return { type: 'string', enum: choices };
    return /^string;?$/.test(type) ? { type: 'string' } : { type: 'object' };
}
