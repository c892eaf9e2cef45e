// Serves the scripted model through the four APIs on loopback, and records the requests.

import { createServer } from 'node:http';

import * as anthropic from './api/anthropic.mjs';
import * as chat from './api/chat.mjs';
import { jsonOf } from './api/common.mjs';
import * as gemini from './api/gemini.mjs';
import * as responses from './api/responses.mjs';
import { answer } from './model.mjs';

const APIS = [anthropic, responses, gemini, chat];

/** Starts the endpoint. `sent` collects the model requests in order. */
export async function start(world) {
    const sent = [];
    const server = createServer(async (request, response) => {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const bytes = Buffer.concat(chunks);
        const url = new URL(request.url, 'http://127.0.0.1');
        const api = APIS.find((api) => api.isMine(url));
        if (request.method !== 'POST' || !api) {
            return jsonOf(response, { error: { message: 'not found' } }, 404);
        }
        const body = JSON.parse(bytes.toString() || '{}');
        const seen = api.read(body);
        const isCount = /count_?tokens/i.test(url.pathname);
        const said = seen.isSide || isCount ? { text: 'A task', calls: [] } : answer(seen, world);
        for (const call of said.calls) call.id = `call_${sent.length}_${said.calls.indexOf(call)}`;
        sent.push({
            path: url.pathname,
            // The API keeps deferred definitions out of the model's context until a search returns them.
            bytes: bytes.length - (seen.unread ?? 0),
            isSide: seen.isSide || isCount,
            body,
            said,
        });
        api.write(response, url, body, said);
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address();
    const stop = () => {
        server.closeAllConnections();
        return new Promise((done) => server.close(done));
    };
    return { url: `http://127.0.0.1:${port}`, sent, stop };
}
