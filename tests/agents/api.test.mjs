// Tests of the APIs; run with `node --test`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as anthropic from './api/anthropic.mjs';
import * as chat from './api/chat.mjs';
import * as responses from './api/responses.mjs';
import { callsOf, script } from './api/scripts.mjs';

/** What `write` of an API sends for these calls, without streaming. */
function sent(api, body, calls) {
    let text = '';
    const response = { writeHead() {}, end: (sent) => (text = sent) };
    api.write(response, new URL('http://127.0.0.1/v1'), body, { text: '', calls });
    return JSON.parse(text);
}

const DECLARATION = `Finds nodes.

exec tool declaration:
\`\`\`ts
declare const tools: { mcp__memory__search_nodes(args: {
  // The search query
  query: string;
  kind?: "place" | "person";
  more: { deep: string; };
}): Promise<CallToolResult<{
  names: Array<string>;
}>>; };
\`\`\``;
const RUNNER = { type: 'custom', name: 'exec', description: 'Run JavaScript code' };
const IN_CODE_MODE = {
    type: 'additional_tools',
    tools: [{ type: 'namespace', name: 'functions', tools: [RUNNER] }],
};

/** A request after a script that printed these texts. */
function afterScript(input, ...printed) {
    const texts = ['Script completed', ...printed].map((text) => ({ type: 'input_text', text }));
    const run = { type: 'custom_tool_call', call_id: 'c', name: 'exec', input };
    return { input: [IN_CODE_MODE, run, { type: 'custom_tool_call_output', call_id: 'c', output: texts }] };
}

test('a script has all calls, and a reader finds them', () => {
    const search = { name: 'ALL_TOOLS', args: { query: 'find "nodes"' } };
    const call = { name: 'mcp__memory__search_nodes', args: { query: 'a\nb' } };
    const calls = [search, call, { ...call, field: '/names/first' }];
    const text = script(calls);
    assert.deepEqual(callsOf(text), [search, call, call]);
    assert.match(text, /structuredContent\?\.names\?\.first\);$/);
    assert.deepEqual(callsOf('text("something else");'), []);
});

test('a script finds the tools with most words, each once', () => {
    const all = [
        { name: 'mcp__git__git_log', description: 'Shows commits.' },
        { name: 'mcp__memory__search_nodes', description: DECLARATION },
        { name: 'mcp__time__now', description: 'The clock of the house' },
    ];
    const queries = ['search for the nodes', 'git log', 'search nodes'];
    const text = script(queries.map((query) => ({ name: 'ALL_TOOLS', args: { query } })));
    const printed = [];
    new Function('ALL_TOOLS', 'text', text)(all, (value) => printed.push(value));
    assert.match(printed[0], /^### mcp__memory__search_nodes\nFinds nodes/);
    assert.doesNotMatch(printed[0], /clock/);
    assert.deepEqual(printed.slice(1), ['### mcp__git__git_log\nShows commits.', '']);
});

test('in code mode, printed declarations are tools', () => {
    const search = { name: 'ALL_TOOLS', args: { query: 'search nodes' } };
    const found = `### mcp__memory__search_nodes\n${DECLARATION}`;
    const { tools, history, parallel, isSide } = responses.read(afterScript(script([search]), found));
    assert.ok(parallel && !isSide);
    assert.deepEqual(history, [{ ...search, result: found }]);
    const { name, schema } = tools.at(-1);
    assert.equal(name, 'mcp__memory__search_nodes');
    assert.deepEqual(schema.properties, {
        query: { type: 'string' },
        kind: { type: 'string', enum: ['place', 'person'] },
        more: { type: 'object' },
    });
});

test('in code mode, each printed text is the result of one call', () => {
    const call = (query) => ({ name: 'mcp__memory__search_nodes', args: { query } });
    const { history } = responses.read(afterScript(script([call('a'), call('b')]), 'of a', 'of b'));
    assert.deepEqual(
        history.map(({ result }) => result),
        ['of a', 'of b'],
    );
    const failed = afterScript(script([call('a'), call('b')]), 'of a');
    assert.equal(responses.read(failed).history[1].result, 'Script completed');
});

test('in code mode, all calls go out as one script', () => {
    const body = { input: [IN_CODE_MODE] };
    const calls = ['a', 'b'].map((query) => ({ id: query, name: 'mcp__x__y', args: { query } }));
    const [item, ...rest] = sent(responses, body, calls).output;
    assert.deepEqual(rest, []);
    assert.deepEqual([item.type, item.name, item.call_id], ['custom_tool_call', 'exec', 'a']);
    assert.equal(callsOf(item.input).length, 2);
});

test("Qwen Code's hidden tools are called through its bridge once they are shown", () => {
    const listed = ['tool_search', 'tool_call'].map((name) => ({ function: { name } }));
    const called = (id, name, args) => ({
        tool_calls: [{ id, function: { name, arguments: JSON.stringify(args) } }],
    });
    const hidden = { name: 'mcp__x__y', description: 'Does y', parametersJsonSchema: { type: 'object' } };
    const messages = [
        called('1', 'tool_search', { query: 'select:mcp__x__y' }),
        {
            role: 'tool',
            tool_call_id: '1',
            content: `<functions>\n<function>${JSON.stringify(hidden)}</function>\n</functions>`,
        },
    ];
    const body = { tools: listed, messages };
    const call = { id: '2', name: 'mcp__x__y', args: { a: 1 } };
    assert.ok(chat.read(body).tools.some(({ name, isHidden }) => name === call.name && isHidden));
    const [message] = sent(chat, body, [call]).choices.map((choice) => choice.message);
    const through = message.tool_calls[0].function;
    assert.equal(through.name, 'tool_call');
    assert.deepEqual(JSON.parse(through.arguments), { name: 'mcp__x__y', arguments: { a: 1 } });
    const { history } = chat.read({ tools: listed, messages: [...messages, message] });
    assert.deepEqual(history.at(-1), { name: 'mcp__x__y', args: { a: 1 }, result: null });
});

test('deferred definitions are unread until a search returns them', () => {
    const tool = { name: 'x-y', description: 'Does y', input_schema: {}, defer_loading: true };
    const search = { name: 'tool_search_tool', description: '', input_schema: {} };
    const body = { tools: [tool, search], messages: [] };
    assert.equal(anthropic.read(body).unread, JSON.stringify(tool).length);
    assert.deepEqual(
        anthropic.read(body).tools.map(({ name, search }) => [name, search]),
        [['tool_search_tool', 'pattern']],
    );
    const content = [{ type: 'tool_result', content: [{ type: 'tool_reference', tool_name: 'x-y' }] }];
    const found = { ...body, messages: [{ role: 'user', content }] };
    assert.equal(anthropic.read(found).unread, 0);
    assert.equal(anthropic.read(found).tools.length, 2);
});
