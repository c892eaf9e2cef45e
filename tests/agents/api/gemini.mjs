// Gemini generateContent API, used by Gemini CLI.

import { jsonOf, sse, textOf } from './common.mjs';

export function isMine(url) {
    return url.pathname.includes('/models/');
}

export function read(body) {
    const texts = [textOf(body.systemInstruction?.parts)];
    const history = [];
    for (const { parts } of body.contents ?? []) {
        for (const part of parts ?? []) {
            if (part.functionCall) {
                history.push({
                    name: part.functionCall.name,
                    args: part.functionCall.args ?? {},
                    result: null,
                });
            } else if (part.functionResponse) {
                const { name, response } = part.functionResponse;
                const call = history.find((call) => call.name === name && call.result === null);
                if (call) call.result = response?.output ?? JSON.stringify(response);
            } else {
                texts.push(textOf(part));
            }
        }
    }
    const declared = (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []);
    return {
        texts,
        tools: declared.map((tool) => ({
            name: tool.name,
            description: tool.description ?? '',
            schema: tool.parametersJsonSchema ?? tool.parameters ?? {},
        })),
        history,
        parallel: true,
        isSide: declared.length === 0,
    };
}

export function write(response, url, body, answer) {
    if (url.pathname.endsWith(':countTokens')) {
        return jsonOf(response, { totalTokens: Math.ceil(JSON.stringify(body).length / 4.5) });
    }
    const parts = answer.calls.map((call) => ({
        functionCall: { name: call.name, args: call.args },
    }));
    if (answer.text) parts.push({ text: answer.text });
    const chunk = {
        candidates: [{ index: 0, content: { role: 'model', parts }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 10, totalTokenCount: 20 },
    };
    if (!url.pathname.includes('streamGenerateContent')) return jsonOf(response, chunk);
    sse(response)(chunk);
    response.end();
}
