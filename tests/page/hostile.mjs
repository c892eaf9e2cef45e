// A server that returns markup that the browser must not run, with tools for testing the forms.

import { createInterface } from 'node:readline';
import { EVIL } from './evil.mjs';

if (process.argv[2] === 'fail') {
  process.stderr.write(`starting\n${EVIL}\n\u001b[2J last line\n`);
  process.exitCode = 3;
} else {
  serve();
}

function serve() {
  const schema = {
    type: 'object',
    required: ['text', 'size'],
    properties: {
      text: { type: 'string', description: EVIL },
      size: { type: 'integer' },
      ratio: { type: 'number' },
      kind: { enum: ['plain', EVIL] },
      is_long: { type: 'boolean' },
      tags: { type: 'array', items: { type: 'string' } },
      place: { type: 'object', required: ['folder'], properties: { folder: { type: 'string' } } },
      anything: { anyOf: [{ type: 'string' }, { type: 'number' }] },
    },
  };
  // They refer to themselves: as forms, they have 200 fields on each level.
  const fields = ($ref) => Object.fromEntries([...Array(200).keys()].map((number) => [`field${number}`, { $ref }]));
  const endless = { type: 'object', properties: fields('#') };
  const row = { type: 'object', properties: fields('#/properties/rows/items') };
  const list = { type: 'object', properties: { rows: { type: 'array', items: row } } };
  const tools = [
    { name: 'endless', description: 'Has a schema that refers to itself', inputSchema: endless },
    { name: 'rows', description: 'Has rows whose schema refers to itself', inputSchema: list },
    { name: 'echo', title: EVIL, description: `Returns its arguments ${EVIL}`, inputSchema: schema },
    { name: 'refuse', description: 'Fails', inputSchema: { type: 'object' } },
    { name: 'danger', description: 'Deletes everything', inputSchema: { type: 'object' } },
    { name: 'show', description: 'Shows images and long texts', inputSchema: { type: 'object' } },
  ];
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
  const svg = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" onload="pwned()"/>`).toString('base64');
  const results = {
    refuse: () => ({ isError: true, content: [{ type: 'text', text: `${EVIL}\u001b[2J\nsecond line\n${'long '.repeat(1000)}` }] }),
    danger: () => ({ content: [{ type: 'text', text: 'everything deleted' }] }),
    show: () => ({
      content: [
        { type: 'text', text: EVIL },
        { type: 'text', text: `line ${EVIL}\n`.repeat(200) },
        { type: 'image', mimeType: 'image/png', data: png },
        { type: 'image', mimeType: 'image/svg+xml', data: svg },
        { type: 'image', mimeType: 'text/html', data: EVIL },
        { type: 'resource_link', uri: 'javascript:pwned()', name: EVIL },
      ],
      structuredContent: { [EVIL]: EVIL },
    }),
  };
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, () => process.exit(0));
  }
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) {
      return;
    }
    let result = {};
    if (method === 'initialize') {
      result = { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: EVIL, version: '1' } };
    } else if (method === 'tools/list') {
      result = { tools };
    } else if (method === 'tools/call' && results[params.name]) {
      result = results[params.name]();
    } else if (method === 'tools/call') {
      // Copy the source text: `JSON.parse` would round numbers.
      result = { content: [{ type: 'text', text: /"arguments":(\{.*?\})(?:,"_meta"|\}\})/.exec(line)[1] }] };
    }
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
  });
}
