// An agent on the official TypeScript SDK: connects, opens a toolbox, calls a tool, and prints
// what it saw, one JSON object a line.
//
//   node typescript.mjs <mode> <toolbox> <server> <tool> <json-arguments> -- <command> [argument...]
//
// `dynamic` calls the tool by the name that opening registers, `proxy` calls it through `use_tool`.

import { createRequire } from 'node:module';

const require = createRequire(new URL('../../.test-env/node/package.json', import.meta.url));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');

const LIST_CHANGED_TIMEOUT = 10_000;

const [mode, toolbox, server, tool, json, dashes, command, ...args] = process.argv.slice(2);
if (!['dynamic', 'proxy'].includes(mode) || dashes !== '--' || !command) {
    console.error('usage: <dynamic|proxy> <toolbox> <server> <tool> <json-arguments> -- <command>...');
    process.exit(2);
}

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
    { listChanged: { tools: { autoRefresh: true, onChanged: listChanged } } },
);
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
say('connected', { server: client.getServerVersion(), instructions: client.getInstructions() ?? null });
say('tools', { names: names((await client.listTools()).tools) });

const opened = await client.callTool({ name: 'open_toolbox', arguments: { toolbox } });
say('opened', { result: opened });
if (mode === 'dynamic') {
    say('tools_after', { names: names(await Promise.race([changed, timeout()])) });
} else {
    say('tools_after', { names: names((await client.listTools()).tools) });
}

const called =
    mode === 'dynamic'
        ? { name: `${toolbox}__${server}__${tool}`, arguments: JSON.parse(json) }
        : { name: 'use_tool', arguments: { tool: { toolbox, server, tool }, arguments: JSON.parse(json) } };
say('called', { name: called.name, result: await client.callTool(called) });

await client.close();
say('closed');
