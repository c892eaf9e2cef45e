// Anthropic Messages API, used by Claude Code and Copilot CLI.

import { jsonOf, sse, textOf } from './common.mjs';

/** The clients' own tool searches, by how they are asked. */
const SEARCHES = { ToolSearch: 'select', tool_search_tool: 'pattern' };

export function isMine(url) {
    return url.pathname.startsWith('/v1/messages');
}

/** Converts a request to the common format of all APIs: texts, tools and call history. */
export function read(body) {
    const texts = [textOf(body.system)];
    const calls = new Map();
    for (const message of body.messages ?? []) {
        for (const block of blocks(message.content)) {
            if (block.type === 'tool_use') {
                calls.set(block.id, { name: block.name, args: block.input ?? {}, result: null });
            } else if (block.type === 'tool_result') {
                const call = calls.get(block.tool_use_id);
                if (call)
                    Object.assign(call, {
                        result: textOf(block.content),
                        failed: !!block.is_error,
                    });
            } else {
                texts.push(textOf([block]));
            }
        }
    }
    const all = body.tools ?? [];
    const tools = all.filter((tool) => !tool.defer_loading || isLoaded(tool, body));
    const unread = all.filter((tool) => !tools.includes(tool));
    return {
        texts,
        tools: tools.map((tool) => ({
            name: tool.name,
            description: tool.description ?? '',
            schema: tool.input_schema ?? {},
            search: SEARCHES[tool.name],
        })),
        history: [...calls.values()],
        parallel: !body.tool_choice?.disable_parallel_tool_use,
        isSide: !(body.tools?.length > 0),
        unread: unread.reduce((sum, tool) => sum + JSON.stringify(tool).length, 0),
    };
}

/** The model sees a deferred tool only after a `tool_reference` to it in the conversation. */
function isLoaded(tool, body) {
    return JSON.stringify(body.messages).includes(`"tool_name":${JSON.stringify(tool.name)}`);
}

function blocks(content) {
    return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
}

export function write(response, url, body, answer) {
    if (url.pathname.endsWith('/count_tokens')) {
        return jsonOf(response, { input_tokens: Math.ceil(JSON.stringify(body).length / 4.5) });
    }
    const content = [];
    if (answer.text) content.push({ type: 'text', text: answer.text });
    for (const call of answer.calls) {
        content.push({ type: 'tool_use', id: call.id, name: call.name, input: call.args });
    }
    const usage = { input_tokens: 10, output_tokens: 10 };
    const message = {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: body.model,
        content,
        stop_reason: answer.calls.length > 0 ? 'tool_use' : 'end_turn',
        stop_sequence: null,
        usage,
    };
    if (!body.stream) return jsonOf(response, message);
    const send = sse(response);
    const event = (type, data) => send({ type, ...data }, type);
    event('message_start', { message: { ...message, content: [], stop_reason: null } });
    content.forEach((block, index) => {
        const [start, delta] =
            block.type === 'text'
                ? [
                      { ...block, text: '' },
                      { type: 'text_delta', text: block.text },
                  ]
                : [
                      { ...block, input: {} },
                      { type: 'input_json_delta', partial_json: JSON.stringify(block.input) },
                  ];
        event('content_block_start', { index, content_block: start });
        event('content_block_delta', { index, delta });
        event('content_block_stop', { index });
    });
    const delta = { stop_reason: message.stop_reason, stop_sequence: null };
    event('message_delta', { delta, usage });
    event('message_stop', {});
    response.end();
}
