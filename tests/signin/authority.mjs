// An authorization server (oidc-provider) and an MCP server that accepts its tokens, for sign-in tests.
//
//   node authority.mjs FOLDER
//
// FOLDER contains `node_modules`.
//
// Prints the addresses as a line of JSON: `mcp`, `issuer` and `control`. Endpoints of `control`:
//   /browse?url=…    a browser whose user consents: returns the final URL and the page's text
//   /set?…           ttl (seconds), deny, down, hold (milliseconds), closed, scope
//   /counts          requests to the token endpoint
//   /revoke          revokes all grants

import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const installed = join(process.argv[2], 'package.json');
const { default: Provider } = await import(createRequire(installed).resolve('oidc-provider'));

const SCOPES = 'mcp:read mcp:write';
const state = { ttl: 3600, deny: false, down: false, hold: 0, closed: false, scope: 'mcp:read' };
const counts = { code: 0, refresh: 0, refused: 0, failed: 0, revoked: 0, calls: 0 };

/** Starts a server on a free port. */
async function listen(handler) {
    const server = createServer(handler);
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    return { server, origin: `http://127.0.0.1:${server.address().port}` };
}

let answerAs;
const authority = await listen((request, response) => answerAs(request, response));
const resource = await listen((request, response) => serveMcp(request, response));
const mcp = `${resource.origin}/mcp`;

const grants = new Set();
/** Pre-registered machine clients: one with a secret, two with signed assertions. */
const keys = {
    RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
    ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey,
};
const machine = { grant_types: ['client_credentials'], response_types: [], redirect_uris: [] };
const signers = Object.entries(keys).map(([algorithm, key]) => ({
    ...machine,
    client_id: `signs-${algorithm}`,
    token_endpoint_auth_method: 'private_key_jwt',
    token_endpoint_auth_signing_alg: algorithm,
    jwks: { keys: [{ ...createPublicKey(key).export({ format: 'jwk' }), kid: 'k1', alg: algorithm, use: 'sig' }] },
}));
const SECRET = 'the-secret-of-the-machine:+%/';
const methods = process.env.AUTH_METHODS?.split(' ');
const provider = new Provider(authority.origin, {
    scopes: ['openid', 'offline_access', ...SCOPES.split(' ')],
    clients: [{ ...machine, client_id: 'machine', client_secret: SECRET }, ...signers],
    ...(methods && { clientAuthMethods: [...methods, 'private_key_jwt'] }),
    features: {
        registration: { enabled: true },
        clientCredentials: { enabled: true },
        deviceFlow: { enabled: true },
        revocation: { enabled: true },
        devInteractions: { enabled: false },
        resourceIndicators: {
            enabled: true,
            defaultResource: () => mcp,
            useGrantedResource: () => true,
            getResourceServerInfo: () => ({
                scope: SCOPES,
                audience: mcp,
                accessTokenFormat: 'opaque',
                accessTokenTTL: state.ttl,
            }),
        },
    },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: () => true,
    ttl: { AccessToken: () => state.ttl, RefreshToken: 86_400, Grant: 86_400, Session: 86_400, Interaction: 600 },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    cookies: { keys: ['of a test'] },
});
provider.on('grant.success', ({ oidc }) => {
    counts[oidc.params.grant_type === 'refresh_token' ? 'refresh' : 'code'] += 1;
});
provider.on('grant.error', () => (counts.refused += 1));
provider.on('grant.revoked', () => (counts.revoked += 1));

/** Grants or denies consent. */
async function interact(request, response) {
    const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
    if (state.deny) {
        const error = { error: 'access_denied', error_description: 'the user has said no' };
        return provider.interactionFinished(request, response, error, { mergeWithLastSubmission: false });
    }
    if (prompt.name === 'login') {
        return provider.interactionFinished(request, response, { login: { accountId: 'ann' } });
    }
    const known = grantId && (await provider.Grant.find(grantId));
    const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope(params.scope ?? '');
    grant.addResourceScope(mcp, params.scope ?? SCOPES);
    const saved = await grant.save();
    grants.add(saved);
    return provider.interactionFinished(request, response, { consent: { grantId: saved } }, { mergeWithLastSubmission: true });
}

const callback = provider.callback();
answerAs = async (request, response) => {
    try {
        if (request.url.startsWith('/interaction/')) {
            return await interact(request, response);
        }
        if (request.url === '/token' && state.down) {
            counts.failed += 1;
            response.writeHead(503).end();
            return;
        }
        if (request.url === '/token' && state.hold > 0) {
            // Delay the decision; the client may have given up by then.
            const end = response.end.bind(response);
            response.end = (...args) => void setTimeout(() => end(...args), state.hold);
        }
        await callback(request, response);
    } catch (error) {
        response.writeHead(500).end(String(error));
    }
};

const TOOLS = ['read', 'write'].map((name) => ({ name, description: `${name} something`, inputSchema: { type: 'object' } }));

/** The MCP server. Requests without a token get the address of its metadata. */
async function serveMcp(request, response) {
    const url = new URL(request.url, resource.origin);
    const json = (status, body, headers = {}) =>
        response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body && JSON.stringify(body));
    if (url.pathname.startsWith('/.well-known/oauth-protected-resource')) {
        return json(200, { resource: mcp, authorization_servers: [authority.origin], scopes_supported: ['mcp:read'] });
    }
    if (url.pathname !== '/mcp') {
        return json(404);
    }
    const metadata = `resource_metadata="${resource.origin}/.well-known/oauth-protected-resource/mcp"`;
    const shown = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    const ofPerson = shown && !state.closed && (await provider.AccessToken.find(shown));
    const ofMachine = shown && !state.closed && (await provider.ClientCredentials.find(shown));
    const token = ofPerson || ofMachine;
    const isGood = token && !token.isExpired && (ofMachine || (await provider.Grant.find(token.grantId)));
    if (!isGood) {
        const error = shown ? 'error="invalid_token", ' : '';
        return json(401, undefined, { 'www-authenticate': `Bearer ${error}${metadata}, scope="${state.scope}"` });
    }
    if (request.method !== 'POST') {
        return json(405);
    }
    let text = '';
    for await (const part of request) {
        text += part;
    }
    const { id, method, params } = JSON.parse(text);
    if (id === undefined) {
        return json(202);
    }
    if (method === 'tools/call') {
        if (params.name === 'write' && !token.scope?.split(' ').includes('mcp:write')) {
            const wants = 'error="insufficient_scope", scope="mcp:write"';
            return json(403, undefined, { 'www-authenticate': `Bearer ${wants}, ${metadata}` });
        }
        counts.calls += 1;
        const said = `${params.name} by ${token.accountId} as ${token.clientId}`;
        return json(200, { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: said }] } });
    }
    const capabilities = { tools: {}, resources: {}, prompts: {}, completions: {} };
    const by = `by ${token.accountId}`;
    const results = {
        initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'hub', version: '1' } },
        'tools/list': { tools: TOOLS },
        'resources/list': { resources: [{ uri: 'note://one', name: 'one' }] },
        'resources/templates/list': { resourceTemplates: [] },
        'resources/read': { contents: [{ uri: 'note://one', text: `noted ${by}` }] },
        'prompts/list': { prompts: [{ name: 'greet', arguments: [{ name: 'whom' }] }] },
        'prompts/get': { messages: [{ role: 'user', content: { type: 'text', text: `greeted ${by}` } }] },
        'completion/complete': { completion: { values: [`ann, ${by}`] } },
        ping: {},
    };
    const result = results[method];
    return json(200, result ? { jsonrpc: '2.0', id, result } : { jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } });
}

/** A browser that follows redirects and stores cookies per server. */
async function browse(start) {
    const jars = new Map();
    let [url, sent] = [new URL(start), undefined];
    for (let hop = 0; hop < 20; hop += 1) {
        const jar = jars.get(url.host) ?? new Map();
        jars.set(url.host, jar);
        const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
        const how = sent && { method: 'POST', body: sent };
        const answer = await fetch(url, { redirect: 'manual', headers: cookie ? { cookie } : {}, ...how });
        sent = undefined;
        for (const line of answer.headers.getSetCookie()) {
            const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
            jar.set(name, value);
        }
        const next = answer.headers.get('location');
        if (!next) {
            const text = await answer.text();
            const [, action] = /<form[^>]* action="([^"]+)"/.exec(text) ?? [];
            if (!action) {
                return { url: url.href, status: answer.status, text };
            }
            // Submit every form unchanged.
            const hidden = text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g);
            sent = new URLSearchParams([...hidden].map(([, name, value]) => [name, value]));
            url = new URL(action, url);
            continue;
        }
        url = new URL(next, url);
        if (state.paste && url.searchParams.has('state') && !url.href.startsWith(authority.origin)) {
            return { url: url.href, status: 0, text: '' };
        }
    }
    throw new Error('too many redirects');
}

const control = await listen(async (request, response) => {
    const url = new URL(request.url, 'http://control');
    let said = {};
    try {
        if (url.pathname === '/browse') {
            said = await browse(url.searchParams.get('url'));
        } else if (url.pathname === '/set') {
            for (const [name, value] of url.searchParams) {
                state[name] = /^\d+$/.test(value) ? Number(value) : value === 'true' ? true : value === 'false' ? false : value;
            }
            said = state;
        } else if (url.pathname === '/counts') {
            said = counts;
        } else if (url.pathname === '/revoke') {
            for (const id of grants) {
                await provider.AccessToken.revokeByGrantId?.(id);
                await provider.RefreshToken.adapter.revokeByGrantId(id);
                await (await provider.Grant.find(id))?.destroy();
            }
        }
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(said));
    } catch (error) {
        response.writeHead(500).end(String(error.stack));
    }
});
const pem = (key) => key.export({ type: 'pkcs8', format: 'pem' });
const machines = { secret: SECRET, keys: Object.fromEntries(Object.entries(keys).map(([name, key]) => [name, pem(key)])) };
console.log(JSON.stringify({ mcp, issuer: authority.origin, control: control.origin, machines }));
process.stdin.on('close', () => process.exit()).resume();
