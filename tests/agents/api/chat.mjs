// OpenAI Chat Completions API, used by opencode.

import { jsonOf, parsed, sse, textOf } from './common.mjs';

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
            calls.set(id, { name: called.name, args: parsed(called.arguments), result: null });
        }
    }
    return {
        texts,
        tools: (body.tools ?? []).map(({ function: tool }) => ({
            name: tool.name,
            description: tool.description ?? '',
            schema: tool.parameters ?? {},
        })),
        history: [...calls.values()],
        parallel: body.parallel_tool_calls !== false,
        isSide: !(body.tools?.length > 0),
    };
}

export function write(response, url, body, answer) {
    const tool_calls = answer.calls.map((call, index) => ({
        index,
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: JSON.stringify(call.args) },
    }));
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
