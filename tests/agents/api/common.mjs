// What the four APIs have in common.

/** The text in a string, a block, or a list of blocks; references to tools by their names. */
export function textOf(content) {
    if (content == null) return '';
    if (typeof content === 'string') return content;
    if (Array.isArray(content)) return content.map(textOf).join('\n');
    if (content.type === 'tool_reference') return content.tool_name;
    return content.text ?? content.content ?? '';
}

export function jsonOf(response, value, status = 200) {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value));
}

/** Begins a stream of events, and returns what sends one. */
export function sse(response) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    return (data, event) => {
        if (event) response.write(`event: ${event}\n`);
        response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
    };
}

/** Arguments, which some APIs have as text. */
export function parsed(text) {
    if (typeof text !== 'string') return text ?? {};
    try {
        return JSON.parse(text);
    } catch {
        return {};
    }
}
