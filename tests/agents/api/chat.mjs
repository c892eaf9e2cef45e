// OpenAI Chat Completions API, used by opencode and Qwen Code.
//
// Qwen Code shows the definitions of its hidden tools in the results of `tool_search`, and calls them with `tool_call`.
// For the model, a shown tool is one like any other.

import { jsonOf, parsed, sse, textOf } from './common.mjs';

const SEARCH = 'tool_search';
const BRIDGE = 'tool_call';

export function isMine(url) {
    return url.pathname.endsWith('/chat/completions');
}

export function read(body) {
    const texts = [];
    const calls = new Map();
    for (const message of body.messages ?? []) {
        if (message.role === 'tool') {
            const call = calls.get(message.tool_call_id);
            if (call) call.result = textOf(message.content);
            continue;
        }
        texts.push(textOf(message.content));
        for (const { id, function: called } of message.tool_calls ?? []) {
            const args = parsed(called.arguments);
            const call =
                called.name === BRIDGE
                    ? { name: args.name, args: args.arguments ?? {} }
                    : { name: called.name, args };
            calls.set(id, { ...call, result: null });
        }
    }
    const listed = (body.tools ?? []).map(({ function: tool }) => ({
        name: tool.name,
        description: tool.description ?? '',
        schema: tool.parameters ?? {},
        search: tool.name === SEARCH ? 'select' : undefined,
    }));
    const history = [...calls.values()];
    return {
        texts,
        tools: [...listed, ...shown(history, listed)],
        history,
        parallel: body.parallel_tool_calls !== false,
        isSide: !(body.tools?.length > 0),
    };
}

/** The hidden tools that a search has shown. */
function shown(history, listed) {
    const found = history
        .filter((call) => call.name === SEARCH)
        .flatMap((call) => [...(call.result ?? '').matchAll(/<function>(.*?)<\/function>/gs)])
        .map((match) => parsed(match[1]))
        .filter((tool) => tool.name && !listed.some((other) => other.name === tool.name));
    return found.map(({ name, description = '', parametersJsonSchema: schema = {} }) => {
        return { name, description, schema, isHidden: true };
    });
}

export function write(response, url, body, answer) {
    const { tools } = read(body);
    const tool_calls = answer.calls.map(({ id, name, args }, index) => {
        const isHidden = tools.find((tool) => tool.name === name)?.isHidden;
        const called = isHidden ? { name: BRIDGE, args: { name, arguments: args } } : { name, args };
        const text = JSON.stringify(called.args);
        return { index, id, type: 'function', function: { name: called.name, arguments: text } };
    });
    const message = { role: 'assistant', content: answer.text || null };
    if (tool_calls.length > 0) message.tool_calls = tool_calls;
    const finish_reason = tool_calls.length > 0 ? 'tool_calls' : 'stop';
    const usage = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 };
    const head = { id: 'chat_1', created: 0, model: body.model };
    if (!body.stream) {
        const choices = [{ index: 0, message, finish_reason }];
        return jsonOf(response, { ...head, object: 'chat.completion', choices, usage });
    }
    const send = sse(response);
    const chunk = (delta, finish_reason = null) =>
        send({
            ...head,
            object: 'chat.completion.chunk',
            choices: [{ index: 0, delta, finish_reason }],
        });
    chunk(message);
    chunk({}, finish_reason);
    send({ ...head, object: 'chat.completion.chunk', choices: [], usage });
    send('[DONE]');
    response.end();
}
