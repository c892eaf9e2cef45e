// Helpers for the four APIs.

/** The text of a string, a block, or a list of blocks. A tool reference yields the tool's name. */
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

/** Starts an event stream; returns a function that sends an event. */
export function sse(response) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    return (data, event) => {
        if (event) response.write(`event: ${event}\n`);
        response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
    };
}

/** Some APIs send arguments as JSON text. */
export function parsed(text) {
    if (typeof text !== 'string') return text ?? {};
    try {
        return JSON.parse(text);
    } catch {
        return {};
    }
}
