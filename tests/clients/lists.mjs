// A client on an official TypeScript SDK that reads every list: connects, opens the toolbox if there is a tool for
// it, and prints the names in all lists as one line of JSON. Fails if the SDK rejects a list.
//
//   node lists.mjs <v1|v2|v2-auto> <toolbox> -- <command> [argument...]
//   node lists.mjs <v1|v2|v2-auto> <toolbox> -- <url>

import { createRequire } from 'node:module';

const require = createRequire(new URL('../../.test-env/node/package.json', import.meta.url));
const [sdk, toolbox, dashes, command, ...args] = process.argv.slice(2);
if (!['v1', 'v2', 'v2-auto'].includes(sdk) || dashes !== '--' || !command) {
    console.error('usage: <v1|v2|v2-auto> <toolbox> -- <command or url>...');
    process.exit(2);
}
const [clientModule, stdioModule, httpModule] =
    sdk === 'v1'
        ? ['client/index.js', 'client/stdio.js', 'client/streamableHttp.js'].map((path) => `@modelcontextprotocol/sdk/${path}`)
        : ['@modelcontextprotocol/client', '@modelcontextprotocol/client/stdio', '@modelcontextprotocol/client'];
const { Client } = require(clientModule);
const { StdioClientTransport } = require(stdioModule);
const { StreamableHTTPClientTransport } = require(httpModule);

const options = sdk === 'v2-auto' ? { versionNegotiation: { mode: 'auto' } } : {};
const client = new Client({ name: 'list-client', version: '1.0.0' }, options);
const transport = command.startsWith('http://')
    ? new StreamableHTTPClientTransport(new URL(command))
    : new StdioClientTransport({ command, args, env: process.env });
await client.connect(transport);
const before = (await client.listTools()).tools;
if (before.some(({ name }) => name === 'open_toolbox')) {
    await client.callTool({ name: 'open_toolbox', arguments: { toolbox } });
}
const { tools } = await client.listTools();
const { prompts } = await client.listPrompts();
const { resources } = await client.listResources();
const { resourceTemplates } = await client.listResourceTemplates();
console.log(
    JSON.stringify({
        tools: tools.map(({ name }) => name),
        prompts: prompts.map(({ name }) => name),
        resources: resources.map(({ uri }) => uri),
        templates: resourceTemplates.map(({ uriTemplate }) => uriTemplate),
    }),
);
await transport.terminateSession?.();
await client.close();
process.exit(0);
