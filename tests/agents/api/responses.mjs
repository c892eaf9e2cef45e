// OpenAI Responses API, used by Codex.

import { jsonOf, parsed, sse, textOf } from './common.mjs';
import * as scripts from './scripts.mjs';

export function isMine(url) {
    return url.pathname.endsWith('/responses');
}

export function read(body) {
    const texts = [body.instructions ?? ''];
    const calls = new Map();
    const tools = (body.tools ?? []).flatMap(flat);
    const runs = [];
    for (const item of body.input ?? []) {
        switch (item.type) {
            case 'additional_tools':
                tools.push(...item.tools.flatMap(flat));
                break;
            case 'custom_tool_call':
                runs.push({ id: item.call_id, script: item.input, outputs: [] });
                break;
            case 'function_call':
                calls.set(item.call_id, {
                    name: item.namespace ? `${item.namespace}.${item.name}` : item.name,
                    args: parsed(item.arguments),
                    result: null,
                });
                break;
            case 'tool_search_call':
                calls.set(item.call_id, {
                    name: 'tool_search',
                    args: parsed(item.arguments),
                    result: null,
                });
                break;
            case 'function_call_output':
            case 'custom_tool_call_output': {
                const call = calls.get(item.call_id);
                if (call) call.result = textOf(item.output);
                const run = runs.find((run) => run.id === item.call_id);
                if (run) run.outputs.push(...[item.output].flat());
                break;
            }
            case 'tool_search_output': {
                const found = (item.tools ?? []).flatMap(flat);
                tools.push(...found);
                const call = calls.get(item.call_id);
                if (call) call.result = found.map((tool) => tool.name).join('\n');
                break;
            }
            default:
                texts.push(textOf(item.content));
        }
    }
    const seen = {
        texts,
        tools,
        history: [...calls.values()],
        parallel: body.parallel_tool_calls === true,
        isSide: tools.length === 0,
    };
    return tools.some(isRunner) ? scripts.inScripts(seen, runs) : seen;
}

/** In code mode, the model calls tools from JavaScript, which this tool runs. */
function isRunner(tool) {
    return tool.name === 'functions.exec' || (tool.name === 'exec' && tool.isCustom);
}

/** Flattens a namespace into its tools. The client's tool search is recognized by its description. */
function flat(tool) {
    if (tool.type === 'namespace') {
        return tool.tools.flatMap(flat).map((inner) => ({
            ...inner,
            name: `${tool.name}.${inner.name}`,
            description: `${inner.description}\n${tool.description ?? ''}`,
            namespace: tool.name,
            own: inner.name,
        }));
    }
    return [
        {
            name: tool.name ?? tool.type,
            description: tool.description ?? '',
            schema: tool.parameters ?? {},
            search: tool.type === 'tool_search' ? 'words' : undefined,
            isCustom: tool.type === 'custom',
        },
    ];
}

function item(call, tools) {
    if (call.name === 'tool_search') {
        const { id, args } = call;
        return {
            type: 'tool_search_call',
            call_id: id,
            execution: 'client',
            status: 'completed',
            arguments: args,
        };
    }
    const tool = tools.find((tool) => tool.name === call.name);
    return {
        type: 'function_call',
        call_id: call.id,
        name: tool?.own ?? call.name,
        ...(tool?.namespace ? { namespace: tool.namespace } : {}),
        arguments: JSON.stringify(call.args),
    };
}

/** One script with all calls. */
function scripted(calls, runner) {
    const { id } = calls[0];
    const place = runner.namespace ? { namespace: runner.namespace } : {};
    const input = scripts.script(calls);
    return { type: 'custom_tool_call', id: `ctc_${id}`, call_id: id, name: 'exec', ...place, input };
}

export function write(response, url, body, answer) {
    const { tools } = read(body);
    const runner = tools.find(isRunner);
    const output =
        runner && answer.calls.length > 0
            ? [scripted(answer.calls, runner)]
            : answer.calls.map((call) => item(call, tools));
    if (answer.text) {
        const content = [{ type: 'output_text', text: answer.text }];
        output.push({ type: 'message', id: 'msg_1', role: 'assistant', content });
    }
    const usage = {
        input_tokens: 10,
        input_tokens_details: null,
        output_tokens: 10,
        output_tokens_details: null,
        total_tokens: 20,
    };
    const whole = { id: 'resp_1', object: 'response', status: 'completed', output, usage };
    if (!body.stream) return jsonOf(response, whole);
    const send = sse(response);
    const event = (type, data) => send({ type, ...data }, type);
    event('response.created', { response: { id: 'resp_1' } });
    output.forEach((item, output_index) => {
        event('response.output_item.done', { output_index, item });
    });
    event('response.completed', { response: whole });
    response.end();
}
