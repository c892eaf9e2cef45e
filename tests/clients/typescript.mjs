// An agent on an official TypeScript SDK: connects, opens a toolbox, calls a tool, and prints its observations
// as JSON lines.
//
//   node typescript.mjs <sdk> <mode> <toolbox> <server> <tool> <json-arguments> -- <command> [argument...]
//   node typescript.mjs <sdk> <mode> <toolbox> <server> <tool> <json-arguments> -- <url>
//
// `v1` is the SDK that supports only `initialize`; `v2` is the client package with its defaults, which also uses
// `initialize`; `v2-auto` first probes `server/discover` in a separate process. `dynamic` calls the tool by the
// name that opening the toolbox registers, `proxy` through `use_tool`, and `direct` by its own name without
// opening a toolbox.

import { createRequire } from 'node:module';

const require = createRequire(new URL('../../.test-env/node/package.json', import.meta.url));
const sdks = {
    v1: [
        '@modelcontextprotocol/sdk/client/index.js',
        '@modelcontextprotocol/sdk/client/stdio.js',
        '@modelcontextprotocol/sdk/client/streamableHttp.js',
        {},
    ],
    v2: [
        '@modelcontextprotocol/client',
        '@modelcontextprotocol/client/stdio',
        '@modelcontextprotocol/client',
        {},
    ],
    'v2-auto': [
        '@modelcontextprotocol/client',
        '@modelcontextprotocol/client/stdio',
        '@modelcontextprotocol/client',
        { versionNegotiation: { mode: 'auto' } },
    ],
};

const LIST_CHANGED_TIMEOUT = 10_000;

const [sdk, mode, toolbox, server, tool, json, dashes, command, ...args] = process.argv.slice(2);
if (!(sdk in sdks) || !['dynamic', 'proxy', 'direct'].includes(mode) || dashes !== '--' || !command) {
    console.error(
        'usage: <v1|v2|v2-auto> <dynamic|proxy|direct> <toolbox> <server> <tool> <json-arguments> -- <command or url>...',
    );
    process.exit(2);
}
const [clientModule, stdioModule, httpModule, options] = sdks[sdk];
const { Client } = require(clientModule);
const { StdioClientTransport } = require(stdioModule);
const { StreamableHTTPClientTransport } = require(httpModule);

const say = (event, fields = {}) => console.log(JSON.stringify({ event, ...fields }));
const names = (tools) => tools.map(({ name }) => name);

let listChanged;
const changed = new Promise((resolve, reject) => {
    listChanged = (error, tools) => (error ? reject(error) : resolve(tools));
});
const timeout = () =>
    new Promise((_, reject) => {
        const expired = () => reject(new Error('no list_changed in time'));
        setTimeout(expired, LIST_CHANGED_TIMEOUT).unref();
    });

const client = new Client(
    { name: 'typescript-test-agent', version: '1.0.0' },
    // In `direct` mode, skip the list handler: it would list again after the client has closed.
    mode === 'direct'
        ? options
        : { ...options, listChanged: { tools: { autoRefresh: true, onChanged: listChanged } } },
);
const transport = command.startsWith('http://')
    ? new StreamableHTTPClientTransport(new URL(command))
    : new StdioClientTransport({ command, args, env: process.env });
// SDK v1 passes the negotiated version only to its transport.
let protocol = null;
const takeVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
    protocol = version;
    takeVersion?.(version);
};
await client.connect(transport);
say('connected', {
    server: client.getServerVersion() ?? null,
    protocol: client.getNegotiatedProtocolVersion?.() ?? protocol,
    instructions: client.getInstructions() ?? null,
});
say('tools', { names: names((await client.listTools()).tools) });

if (mode !== 'direct') {
    const opened = await client.callTool({ name: 'open_toolbox', arguments: { toolbox } });
    say('opened', { result: opened });
}
if (mode === 'dynamic') {
    say('tools_after', { names: names(await Promise.race([changed, timeout()])) });
} else {
    say('tools_after', { names: names((await client.listTools()).tools) });
}

const called = {
    dynamic: { name: `${toolbox}__${server}__${tool}`, arguments: JSON.parse(json) },
    proxy: { name: 'use_tool', arguments: { tool: { toolbox, server, tool }, arguments: JSON.parse(json) } },
    direct: { name: tool, arguments: JSON.parse(json) },
}[mode];
say('called', { name: called.name, result: await client.callTool(called) });

await transport.terminateSession?.();
await client.close();
say('closed');
