// An MCP server on stdio that returns large records: an order is 40 kB of JSON. The fields of the task are near its
// start, so that clients that truncate results still show them.

import { createInterface } from 'node:readline';

const text = { type: 'string' };
const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });
const ORDER = object({
    id: text,
    status: { type: 'string', enum: ['open', 'approved', 'shipped'] },
    replaces: { type: 'string', description: 'The order that this one replaces, or empty' },
    approval: object({ approvedBy: text, approvedOn: text }),
    lines: {
        type: 'array',
        items: object({ item: text, pieces: { type: 'integer' }, berth: text, remark: text }),
    },
});
const TOOLS = [
    {
        name: 'get_order',
        description: 'Returns an order of the chandlery with its approval and all its lines.',
        inputSchema: object({ order_id: text }),
        outputSchema: ORDER,
        annotations: { readOnlyHint: true },
    },
    {
        name: 'list_orders',
        description: 'Lists the ids of the orders of the chandlery.',
        inputSchema: object({}),
        outputSchema: object({ ids: { type: 'array', items: text } }),
        annotations: { readOnlyHint: true },
    },
];
const ORDERS = {
    'A-7301': { replaces: 'A-5512', approval: { approvedBy: 'Otto Brandt', approvedOn: '2026-03-02' } },
    'A-5512': { replaces: '', approval: { approvedBy: 'Mira Tolland', approvedOn: '2026-02-11' } },
};

function order(id) {
    const lines = Array.from({ length: 285 }, (_, index) => ({
        item: `${['anchor', 'rope', 'lamp', 'buoy'][index % 4]}-${1000 + index}`,
        pieces: (index * 7) % 40,
        berth: `berth ${index % 12}`,
        remark: `Packed in crate ${index} together with the papers of ${id}; keep dry and upright.`,
    }));
    return { id, status: 'approved', ...ORDERS[id], lines };
}

const result = (value) => ({
    content: [{ type: 'text', text: JSON.stringify(value) }],
    structuredContent: value,
});
const failure = (message) => ({ content: [{ type: 'text', text: message }], isError: true });
const answers = {
    initialize: ({ protocolVersion }) => ({
        protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'orders', version: '1.0.0' },
    }),
    'tools/list': () => ({ tools: TOOLS }),
    'tools/call': ({ name, arguments: { order_id: id } = {} }) => {
        if (name === 'list_orders') return result({ ids: Object.keys(ORDERS) });
        if (name !== 'get_order') return failure(`unknown tool \`${name}\``);
        return Object.hasOwn(ORDERS, id) ? result(order(id)) : failure(`unknown order \`${id}\``);
    },
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
