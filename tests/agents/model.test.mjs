// Tests of the scripted model; run with `node --test`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { answer } from './model.mjs';
import { TASKS } from './tasks.mjs';

const world = { work: '/work' };
const [one, two, chain, tour, record] = TASKS;

/** A request with these tools and call history. */
function seen({ task = one, tools = [], history = [], texts = [], parallel = true }) {
    return { texts: [task.prompt, ...texts], tools: tools.map(tool), history, parallel };
}

function tool(tool) {
    const whole = { description: '', schema: {} };
    return typeof tool === 'string' ? { ...whole, name: tool } : { ...whole, ...tool };
}

const OPEN = {
    name: 'mcp__workbench__open_toolbox',
    schema: { properties: { toolbox: { enum: ['code', 'mind'] }, detail: {} } },
};
const USE = {
    name: 'mcp__workbench__use_tool',
    schema: { properties: { tool: { type: 'object' } } },
};
const PURPOSES = 'code (2 servers): Files and git\nmind (1 server): The knowledge graph';
const SEARCH = { name: 'ToolSearch', search: 'select' };

function calls(request) {
    return answer(request, world).calls.map(({ name, args }) => [name, args]);
}

test('calls a listed tool by its listed name', () => {
    for (const name of [
        'mcp__memory__search_nodes',
        'memory_search_nodes',
        'mcp__memory.search_nodes',
    ]) {
        assert.deepEqual(calls(seen({ tools: ['Read', name] })), [[name, { query: 'Vell' }]]);
    }
    assert.deepEqual(calls(seen({ tools: ['research_nodes_again'] })), []);
});

test('opens the toolbox with the matching description', () => {
    const request = seen({ tools: [OPEN], texts: [PURPOSES] });
    assert.deepEqual(calls(request), [[OPEN.name, { toolbox: 'mind' }]]);
});

test("calls use_tool only after seeing the tool's arguments", () => {
    const asked = { name: OPEN.name, args: { toolbox: 'mind' } };
    const hidden = { ...asked, result: '{"tools":[{"server":"memory","name":"search_nodes"}]}' };
    const request = (result) => seen({ tools: [OPEN, USE], texts: [PURPOSES], history: [result] });
    assert.ok(calls(request(hidden)).every(([name]) => name !== USE.name));
    const whole =
        '{"server":"memory","name":"search_nodes","inputSchema":{"properties":{"query":{}}}}';
    const short = '{"server":"memory","signature":"search_nodes(query: string)"}';
    for (const result of [whole, short]) {
        assert.deepEqual(calls(request({ ...asked, result })), [
            [
                USE.name,
                {
                    tool: { toolbox: 'mind', server: 'memory', tool: 'search_nodes' },
                    arguments: { query: 'Vell' },
                },
            ],
        ]);
    }
});

test('requests less detail if the client truncated a result', () => {
    const history = [
        { name: OPEN.name, args: { toolbox: 'mind' }, result: '…9 tokens truncated…' },
    ];
    const request = seen({ tools: [OPEN, USE], texts: [PURPOSES], history });
    assert.deepEqual(calls(request), [[OPEN.name, { toolbox: 'mind', detail: 'signatures' }]]);
});

test("loads visible names in one call of the client's tool search", () => {
    const texts = ['mcp__sqlite__read_query\nmcp__time__convert_time\nmcp__time__get_current_time'];
    const request = seen({ task: two, tools: [SEARCH], texts });
    const query = 'select:mcp__sqlite__read_query,mcp__time__convert_time';
    assert.deepEqual(calls(request), [['ToolSearch', { query, max_results: 2 }]]);
});

test("searches by words if no names are visible", () => {
    const request = seen({ tools: [{ name: 'tool_search', search: 'words' }] });
    assert.deepEqual(calls(request), [['tool_search', { query: one.steps[0].query }]]);
});

test('runs independent steps in parallel if the API allows it', () => {
    const request = { task: two, tools: ['sqlite_read_query', 'time_convert_time'] };
    assert.equal(calls(seen(request)).length, 2);
    assert.equal(calls(seen({ ...request, parallel: false })).length, 1);
});

test('a dependent step waits for the earlier result and uses it', () => {
    const tools = ['git_log', 'git_show'];
    assert.deepEqual(calls(seen({ task: chain, tools })), [['git_log', { repo_path: '/work' }]]);
    const hash = '0123456789abcdef0123456789abcdef01234567';
    const history = [
        { name: 'git_log', args: { repo_path: '/work' }, result: `Commit: '${hash}'` },
    ];
    assert.deepEqual(calls(seen({ task: chain, tools, history })), [
        ['git_show', { repo_path: '/work', revision: hash }],
    ]);
});

test('opens no toolbox for a waiting step whose tool is known', () => {
    const known = 'code/git: git_log(repo_path,max_count?) git_show(repo_path,revision)';
    const request = (description) =>
        calls(
            seen({ task: chain, tools: [OPEN, { ...USE, description }], texts: [PURPOSES] }),
        ).map(([name]) => name);
    assert.deepEqual(request(known), [USE.name]);
    assert.deepEqual(request('code/git: git_log(repo_path)'), [USE.name, OPEN.name]);
});

test('the final text contains only facts from results', () => {
    const call = {
        name: 'search_nodes',
        args: { query: 'Vell' },
        result: 'its pilot is Ilka Soren',
    };
    assert.equal(answer(seen({ history: [call] }), world).text, 'DONE: Ilka Soren');
    assert.match(answer(seen({}), world).text, /^STUCK/);
});

test('gives up on a tool that fails repeatedly', () => {
    const call = { name: 'search_nodes', args: { query: 'Vell' }, result: 'error' };
    const request = (history) => seen({ tools: ['search_nodes'], history });
    assert.equal(calls(request([call])).length, 1);
    assert.match(answer(request([call, call]), world).text, /^STUCK/);
});

test('lists the matching part of a tool index without names', () => {
    const description = 'Call it with list for whole entries.\ncode: 26 tools\nmind: 10 tools';
    const activate = { name: 'toolman_activate', description };
    const texts = ['mind (1 server): The knowledge graph'];
    const list = [activate.name, { list: 'mind_*' }];
    assert.deepEqual(calls(seen({ tools: [activate], texts })), [list]);
    const history = [
        { name: activate.name, args: list[1], result: '  mind_search_nodes: finds nodes' },
    ];
    const on = [activate.name, { tools_on: ['mind_search_nodes'] }];
    assert.deepEqual(calls(seen({ tools: [activate], texts, history })), [on]);
});

test('opens a toolbox without new tools once more, then gives up', () => {
    const call = {
        name: OPEN.name,
        args: { toolbox: 'mind' },
        result: '{"tools":[{"name":"mind__memory__search_nodes"}]}',
    };
    const request = (history) => seen({ tools: [OPEN], texts: [PURPOSES], history });
    assert.deepEqual(calls(request([call])), [[OPEN.name, { toolbox: 'mind' }]]);
    assert.deepEqual(calls(request([call, call])), []);
});

test('passes arguments to execute_task after it has requested them', () => {
    const doer = 'workbench_execute_task';
    const task = one.steps[0].query;
    assert.deepEqual(calls(seen({ tools: [doer] })), [[doer, { task }]]);
    const result = '{"error":{"parameters":[{"name":"query"}]}}';
    const request = seen({ tools: [doer], history: [{ name: doer, args: { task }, result }] });
    assert.deepEqual(calls(request), [[doer, { task, arguments: { query: 'Vell' } }]]);
});

test('passes the tool to execute_task after it has suggested it', () => {
    const doer = 'workbench_execute_task';
    const task = one.steps[0].query;
    const result =
        '{"error":{"candidates":[{"tool":"memory.read_graph"},{"tool":"memory.search_nodes"}]}}';
    const call = { name: doer, args: { task }, result };
    const request = (history) => calls(seen({ tools: [doer], history }));
    const meant = { task, tool: 'memory.search_nodes', arguments: { query: 'Vell' } };
    assert.deepEqual(request([call]), [[doer, meant]]);
    const quoted = { ...call, result: JSON.stringify({ error: result }) };
    assert.deepEqual(request([quoted]), [[doer, meant]]);
    const other = { ...call, result: result.replace('search_nodes', 'open_nodes') };
    assert.deepEqual(request([other]), []);
    assert.deepEqual(request([call, call]), []);
});

test('reads definitions with members in any order', () => {
    const line =
        '{"inputSchema":{"properties":{"query":{}}},"name":"search_nodes","server":"memory"}';
    const history = [
        { name: OPEN.name, args: { toolbox: 'mind' }, result: `{"tools":[\n${line}\n]}` },
    ];
    const [[, { tool }]] = calls(seen({ tools: [OPEN, USE], texts: [PURPOSES], history }));
    assert.deepEqual(tool, { toolbox: 'mind', server: 'memory', tool: 'search_nodes' });
});

test('loads a mentioned but unlisted tool by name', () => {
    const open = { ...OPEN, description: 'See them with open_toolbox, then call use_tool.' };
    const search = { name: 'tool_search', search: 'words' };
    const request = seen({ tools: [open, search], texts: [PURPOSES] });
    assert.deepEqual(calls(request), [['tool_search', { query: 'use_tool' }]]);
});

test('reads toolbox descriptions in parentheses', () => {
    const texts = ['Toolboxes: code (Files and git), mind (The knowledge graph). Call open_toolbox.'];
    assert.deepEqual(calls(seen({ tools: [OPEN], texts })), [[OPEN.name, { toolbox: 'mind' }]]);
});

test('opens one toolbox after the other if each argument depends on the earlier result', () => {
    const shown = [
        'mind/memory: search_nodes(query)',
        'data/sqlite: read_query(query)',
        'code/filesystem: read_text_file(path)',
    ].join('\n');
    const request = (...results) => {
        const history = results.map((result) => ({ name: USE.name, args: {}, result }));
        return calls(
            seen({ task: tour, tools: [{ ...USE, description: shown }], history }),
        ).map(([, args]) => args.arguments);
    };
    const fact = 'the tide table is kept at berth 7';
    assert.deepEqual(request(), [{ query: 'tide table' }]);
    assert.deepEqual(request(fact), [{ query: 'SELECT ledger FROM berths WHERE berth = 7' }]);
    assert.deepEqual(request(fact, 'ledger-k4.txt'), [{ path: '/work/ledger-k4.txt' }]);
});

test('selects a field only after its path is known', () => {
    const shown = 'data/orders: get_order(order_id)';
    const use = (more) => ({
        name: USE.name,
        description: shown,
        schema: { properties: { tool: { type: 'string' }, ...more } },
    });
    const select = { select: { type: 'array' } };
    const request = (tool, texts, history) => {
        return calls(seen({ task: record, tools: [tool], texts, history }))[0][1].select;
    };
    assert.equal(request(use(select)), undefined);
    const known = use(select);
    known.description += '\nget_order returns {id, replaces, approval: {approvedBy, approvedOn}}';
    assert.deepEqual(request(known), ['/replaces']);
    assert.equal(request({ ...known, schema: use({}).schema }), undefined);
    // The first record shows the path for the second one.
    const result = '{"id":"A-7301","replaces":"A-5512","approval":{"approvedBy":"Otto Brandt"}}';
    const first = { name: USE.name, args: { tool: 'get_order' }, result };
    assert.deepEqual(request(use(select), [], [first]), ['/approval/approvedBy']);
});

test("loads a listed name with a tool search that takes a pattern", () => {
    const search = { name: 'tool_search_tool', search: 'pattern' };
    const request = (text) => calls(seen({ tools: [search], texts: [text] }));
    const loads = (pattern) => [['tool_search_tool', { pattern }]];
    assert.deepEqual(request('memory MCP server:\n- open_nodes\n- search_nodes'), loads('search_nodes'));
    assert.deepEqual(request('- workbench-use_tool'), loads('workbench-use_tool'));
    assert.deepEqual(request('Call search_nodes.'), []);
});

test('a script looks for use_tool and opens the toolbox at the same time', () => {
    const all = { name: 'ALL_TOOLS', search: 'words' };
    const open = { ...OPEN, description: `Opens a toolbox for use_tool.\n${PURPOSES}` };
    const lookup = ['ALL_TOOLS', { query: 'use_tool' }];
    const request = (search) => calls(seen({ tools: [search, open] }));
    assert.deepEqual(request(all), [lookup]);
    assert.deepEqual(request({ ...all, isAhead: true }), [lookup, [OPEN.name, { toolbox: 'mind' }]]);
});

test('a script searches for all tools at once', () => {
    const request = (search) => calls(seen({ task: tour, tools: [search] })).length;
    assert.equal(request({ name: 'tool_search', search: 'words' }), 1);
    assert.equal(request({ name: 'ALL_TOOLS', search: 'words', isAhead: true }), 3);
});

test('finds the server of a signature in a result that is one line', () => {
    const tools = [
        { server: 'thinking', signature: 'think(thought: string)' },
        { server: 'memory', signature: 'search_nodes(query: string)' },
    ];
    const history = [
        { name: OPEN.name, args: { toolbox: 'mind' }, result: JSON.stringify({ toolbox: 'mind', tools }) },
    ];
    const [[, { tool }]] = calls(seen({ tools: [OPEN, USE], texts: [PURPOSES], history }));
    assert.equal(tool.server, 'memory');
});
