// Runs the steps of everything.json with an official TypeScript SDK and prints the results as JSON lines. The
// output is the same for every run, with or without a gateway in between.
//
//   node everything.mjs <sdk> <mode> <toolbox> <server> -- <command> [argument...]
//
// For `v1`, `v2` and `v2-auto`, see typescript.mjs. The mode selects how tools are called: `plain` by the
// server's own names, `dynamic` by names prefixed with toolbox and server, `proxy` through `use_tool`.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(new URL('../../.test-env/node/package.json', import.meta.url));
const scenario = JSON.parse(readFileSync(new URL('everything.json', import.meta.url), 'utf8'));

const WAIT = 5_000;
const CALL_TIMEOUT = 15_000;

const [sdk, mode, toolbox, server, dashes, command, ...args] = process.argv.slice(2);
if (!['v1', 'v2', 'v2-auto'].includes(sdk) || !['plain', 'dynamic', 'proxy'].includes(mode) || dashes !== '--' || !command) {
    console.error('usage: <v1|v2|v2-auto> <plain|dynamic|proxy> <toolbox> <server> -- <command>...');
    process.exit(2);
}
const v1 = sdk === 'v1';
const prefix = mode === 'dynamic' ? `${toolbox}__${server}__` : '';
const features = v1 ? ['tasks'] : [];

// --- masks for values and names that vary

const blots = scenario.blots.map(([pattern, blot]) => [new RegExp(pattern, 'g'), blot]);
if (prefix) blots.push([new RegExp(prefix, 'g'), '']);
const blot = (text) => blots.reduce((left, [pattern, replacement]) => left.replace(pattern, replacement), text);

// Decode text blobs, because they may contain times.
function blob(base64) {
    const bytes = Buffer.from(base64, 'base64');
    const text = bytes.toString('utf8');
    return Buffer.from(text, 'utf8').equals(bytes) ? `text: ${blot(text)}` : base64;
}

function normal(value, key) {
    if (typeof value === 'string') return key === 'blob' ? blob(value) : blot(value);
    if (Array.isArray(value)) return value.map((item) => normal(item));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, normal(member, name)]));
}

const byName = (items) => items.sort((a, b) => (a.name < b.name ? -1 : 1));
const byUri = (items) => items.sort((a, b) => ((a.uri ?? a.uriTemplate) < (b.uri ?? b.uriTemplate) ? -1 : 1));

// --- messages and requests from the server

// In MCP 2026-07-28, notifications carry their subscription id.
const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';
const heard = [];
let wake = () => {};

function hear(method, given) {
    const { _meta: { [SUBSCRIPTION_ID]: _, ...meta } = {}, ...params } = normal(given ?? {});
    if (Object.keys(meta).length) params._meta = meta;
    if (params.data === '<level> message') params.level = '<level>';
    heard.push(JSON.stringify({ method, params }));
    wake();
}

// Waits for a matching message; `from` is the first index to check.
async function comes(pattern, from) {
    const end = Date.now() + WAIT;
    while (!heard.slice(from).some((message) => new RegExp(pattern).test(message))) {
        if (Date.now() > end) return false;
        await new Promise((resolve) => {
            wake = resolve;
            setTimeout(resolve, end - Date.now() + 1);
        });
    }
    return true;
}

let roots = scenario.roots;
let answers = {};

async function answer({ method, params }, extra) {
    hear(method, params);
    const result = method === 'roots/list' ? { roots } : answers[method];
    if (!result) throw new Error(`no answer to ${method}`);
    if (!params?.task) return result;
    const task = await extra.taskStore.createTask(params.task);
    setImmediate(() => extra.taskStore.storeTaskResult(task.taskId, 'completed', result));
    return { task };
}

// --- client

const { Client } = require(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StdioClientTransport } = require(
    v1 ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio',
);
const capabilities = { roots: { listChanged: true }, sampling: {}, elicitation: { form: {}, url: {} } };
const options = { capabilities };
if (v1) {
    const { InMemoryTaskStore } = require('@modelcontextprotocol/sdk/experimental/tasks');
    options.taskStore = new InMemoryTaskStore();
    const requests = { sampling: { createMessage: {} }, elicitation: { create: {} } };
    capabilities.tasks = { list: {}, cancel: {}, requests };
}
if (sdk === 'v2-auto') options.versionNegotiation = { mode: 'auto' };

const client = new Client({ name: 'everything-client', version: '1.0.0' }, options);
client.fallbackNotificationHandler = async ({ method, params }) => hear(method, params);
if (v1) {
    const types = require('@modelcontextprotocol/sdk/types.js');
    client.setRequestHandler(types.ListRootsRequestSchema, answer);
    client.setRequestHandler(types.CreateMessageRequestSchema, answer);
    client.setRequestHandler(types.ElicitRequestSchema, answer);
} else {
    for (const method of ['roots/list', 'sampling/createMessage', 'elicitation/create']) {
        client.setRequestHandler(method, answer);
    }
}

// --- replacements for requests that MCP 2026-07-28 removed

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const modern = () => !v1 && client.getNegotiatedProtocolVersion() >= '2026';
const subscriptions = new Map();
let level;

const legacyOr = (request, instead) => async (step) => {
    if (!modern()) return request(step);
    await instead(step);
    return {};
};
// MCP 2026-07-28 sends the log level with every request.
const params = (given) => (modern() && level ? { ...given, _meta: { [LOG_LEVEL]: level } } : given);

// --- steps

const throughUseTool = (tool, given) => ({
    name: 'use_tool',
    arguments: { tool: { toolbox, server, tool }, arguments: given ?? {} },
});
const called = (tool, given) =>
    params(mode === 'proxy' ? throughUseTool(tool, given) : { name: prefix + tool, arguments: given });

const tasks = () => client.experimental.tasks;
async function* stream(step) {
    const call = called(step.tool, step.arguments);
    for await (const message of tasks().callToolStream(call, undefined, { task: { ttl: 60_000 } })) {
        if (message.type === 'error') throw message.error;
        yield message;
    }
}

async function open() {
    const { content } = await client.callTool({ name: 'open_toolbox', arguments: { toolbox, detail: 'full' } });
    return JSON.parse(content[0].text);
}

const does = {
    ping: legacyOr(
        () => client.ping(),
        () => client.discover(),
    ),
    setLevel: legacyOr(
        (step) => client.setLoggingLevel(step.level),
        (step) => (level = step.level),
    ),
    tools: async () => {
        const tools = mode === 'proxy' ? (await open()).tools : (await client.listTools()).tools;
        const own = tools.filter(({ name }) => name.startsWith(prefix));
        return byName(own.map(({ toolbox, server, ...tool }) => tool));
    },
    prompts: async () => byName((await client.listPrompts()).prompts),
    resources: async () => byUri((await client.listResources()).resources),
    templates: async () => byUri((await client.listResourceTemplates()).resourceTemplates),
    call: async (step) => {
        // The SDK drops the last progress notification if it arrives together with the result.
        const progress = [];
        const onprogress =
            step.progress && ((update) => update.progress < update.total && progress.push(update));
        const result = await client.callTool(
            called(step.tool, step.arguments),
            ...(v1 ? [undefined] : []),
            { timeout: CALL_TIMEOUT, ...(onprogress && { onprogress }) },
        );
        return onprogress ? { ...result, progress } : result;
    },
    cancel: async (step) => {
        const stop = new AbortController();
        const options = { signal: stop.signal, onprogress: () => stop.abort(), timeout: CALL_TIMEOUT };
        try {
            return await client.callTool(called(step.tool, step.arguments), ...(v1 ? [undefined] : []), options);
        } catch (error) {
            if (stop.signal.aborted) throw new Error('cancelled');
            throw error;
        }
    },
    read: ({ uri }) => client.readResource(params({ uri })),
    subscribe: legacyOr(
        ({ uri }) => client.subscribeResource({ uri }),
        async ({ uri }) => subscriptions.set(uri, await client.listen({ resourceSubscriptions: [uri] })),
    ),
    unsubscribe: legacyOr(
        ({ uri }) => client.unsubscribeResource({ uri }),
        ({ uri }) => subscriptions.get(uri).close(),
    ),
    prompt: (step) => client.getPrompt(params({ name: step.prompt, arguments: step.arguments })),
    complete: ({ prompt, template, argument, context }) =>
        client.complete({
            ref: prompt ? { type: 'ref/prompt', name: prompt } : { type: 'ref/resource', uri: template },
            argument,
            ...(context && { context: { arguments: context } }),
        }),
    setRoots: async (step) => {
        roots = step.roots;
        // In MCP 2026-07-28, servers request the roots when they need them.
        if (!modern()) await client.sendRootsListChanged();
        return {};
    },
    task: async (step) => {
        for await (const { type, result } of stream(step)) if (type === 'result') return result;
    },
    cancelTask: async (step) => {
        for await (const { task } of stream(step)) {
            const { status, statusMessage } = await tasks().cancelTask(task.taskId);
            return { status, statusMessage };
        }
    },
    tasks: async () => (await tasks().listTasks()).tasks.map(({ status, ttl }) => ({ status, ttl })),
};

async function take(step) {
    const from = step.sinceStart ? 0 : heard.length;
    answers = step.answers ?? {};
    let outcome;
    try {
        outcome = { result: normal(await does[step.do](step)) };
    } catch (error) {
        const { code, message, data } = error;
        outcome = { error: normal({ code, message, data }) };
    }
    const awaited = step.awaits ?? (modern() ? undefined : step.awaitsLog);
    if (awaited && !(await comes(awaited, from))) outcome.unheard = awaited;
    return outcome;
}

const say = (step, outcome) => console.log(JSON.stringify({ step, ...outcome }));

// Stdout is reserved for the transcript.
console.debug = console.error;
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' }));
if (modern()) {
    await client.listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true });
}
const opened = mode === 'plain' ? null : await open();
say('connect', {
    result: {
        capabilities: client.getServerCapabilities(),
        instructions: opened ? opened.server_instructions?.[server] : client.getInstructions(),
    },
});
for (const step of scenario.steps) {
    if (!step.needs || features.includes(step.needs)) say(step.step, await take(step));
}
say('heard', { result: [...new Set(heard)].sort().map((message) => JSON.parse(message)) });
await client.close();
process.exit(0);
