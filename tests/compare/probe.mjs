// A server that returns content that a gateway may alter, byte for byte as written here.

import { createInterface } from 'node:readline';

const ANSWERS = {
    unknown: '"content":[{"type":"text","text":"kept"}],"x-unknown":{"kept":true}',
    meta: '"content":[{"type":"text","text":"kept"}],"_meta":{"example.com/kept":{"a":[1,null]}}',
    structured: '"content":[{"type":"text","text":"kept"}],"structuredContent":{"a":{"b":[1,"x"]}}',
    big: '"content":[{"type":"text","text":"kept"}],"structuredContent":{"n":12345678901234567890}',
    huge: '"content":[{"type":"text","text":"kept"}],"structuredContent":{"n":1e400}',
};
const NAMES = ['echo', 'received', 'grow', 'fail', ...Object.keys(ANSWERS)];
let hasGrown = false;

const say = (line) => process.stdout.write(`${line}\n`);
const tool = (name) => ({
    name,
    description: `Tries out what passes: ${name}`,
    inputSchema: { type: 'object', properties: { text: {}, n: {} } },
});

createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    const answer = (result) => say(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{${result}}}`);
    const text = (text) => answer(`"content":[{"type":"text","text":${JSON.stringify(text)}}]`);
    const error = (code, data) => {
        const error = { code, message: 'the probe says no', data };
        say(JSON.stringify({ jsonrpc: '2.0', id, error }));
    };
    if (method === 'initialize') {
        const { protocolVersion } = params;
        const capabilities = { tools: { listChanged: true } };
        const serverInfo = { name: 'probe', version: '1' };
        answer(JSON.stringify({ protocolVersion, capabilities, serverInfo }).slice(1, -1));
    } else if (method === 'ping') {
        answer('');
    } else if (method === 'tools/list') {
        const tools = [...NAMES, ...(hasGrown ? ['grown'] : [])].map(tool);
        answer(`"tools":${JSON.stringify(tools)}`);
    } else if (method !== 'tools/call') {
        error(-32601);
    } else if (params.name === 'grow') {
        hasGrown = true;
        say('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
        text('grown');
    } else if (params.name === 'received') {
        text(line);
    } else if (params.name === 'fail') {
        error(-32050, { kept: 'yes' });
    } else if (ANSWERS[params.name]) {
        answer(ANSWERS[params.name]);
    } else {
        text(String(params.arguments?.text ?? params.name));
    }
});
