// An agent on the official TypeScript SDK (v1) that authenticates with a token over HTTP, or discovers the
// authorization server if it has none. Prints its observations as JSON lines.
//
//   node bearer.mjs <url> <token>

import { createRequire } from 'node:module';

const require = createRequire(new URL('../../.test-env/node/package.json', import.meta.url));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const {
    discoverAuthorizationServerMetadata,
    discoverOAuthProtectedResourceMetadata,
    extractResourceMetadataUrl,
} = require('@modelcontextprotocol/sdk/client/auth.js');

const [url, token] = process.argv.slice(2);
if (!url || !token) {
    console.error('usage: <url> <token>');
    process.exit(2);
}
const say = (event, fields = {}) => console.log(JSON.stringify({ event, ...fields }));
const connect = async (headers) => {
    const client = new Client({ name: 'typescript-test-agent', version: '1.0.0' });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    return client;
};

try {
    await connect({});
} catch (error) {
    say('refused', { code: error.code ?? null });
}
const refused = await fetch(url, { method: 'POST' });
const resourceMetadataUrl = extractResourceMetadataUrl(refused);
const resource = await discoverOAuthProtectedResourceMetadata(url, { resourceMetadataUrl });
say('resource', { resource });
const issuer = await discoverAuthorizationServerMetadata(resource.authorization_servers[0]);
say('issuer', { issuer: issuer?.issuer ?? null });

const client = await connect({ Authorization: `Bearer ${token}` });
say('tools', { names: (await client.listTools()).tools.map(({ name }) => name) });
await client.close();
