// A server on stdio that needs the variable HARBOUR_TOKEN. At its start it writes the value to the file in its first
// argument, so that the test sees which agents pass the variable on.

import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const token = process.env.HARBOUR_TOKEN ?? '';
writeFileSync(process.argv[2], token);

const names = ['hoist', 'strike', 'burn', 'sink', 'scuttle'];
const tools = names.map((name) => ({
    name,
    description: `${name} the flag of the harbour`,
    inputSchema: { type: 'object' },
}));
const answers = {
    initialize: ({ protocolVersion }) => ({
        protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'harbour', version: '1.0.0' },
    }),
    'tools/list': () => ({ tools }),
    'tools/call': ({ name }) => ({ content: [{ type: 'text', text: `${name} with ${token}` }] }),
    ping: () => ({}),
};

createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    const answer = answers[method];
    const body = answer
        ? { result: answer(params ?? {}) }
        : { error: { code: -32601, message: 'method not found' } };
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...body })}\n`);
});
