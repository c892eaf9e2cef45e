// GitHub Copilot CLI, in prompt mode, offline with its own model provider: that needs no GitHub account.

import { join } from 'node:path';
import { write } from './files.mjs';

export const name = 'Copilot CLI';
export const model = 'claude-sonnet-4.6';
export const program = '@github/copilot-linux-x64/copilot';

export function plan({ home, url, servers, prompt }) {
    const mcpServers = Object.fromEntries(
        Object.entries(servers).map(([name, server]) => [
            name,
            { type: 'local', tools: ['*'], ...server },
        ]),
    );
    write(join(home, '.copilot/mcp-config.json'), { mcpServers });
    const { args, env } = launch({ url, prompt });
    // Long results go to files there.
    return { args, env: { ...env, TMPDIR: home } };
}

/** The command and environment, if the home already has its configuration. */
export function launch({ url, prompt }) {
    return {
        args: ['--allow-all-tools', '--allow-all-paths', '--no-auto-update', '--prompt', prompt],
        env: {
            COPILOT_OFFLINE: 'true',
            COPILOT_PROVIDER_TYPE: 'anthropic',
            COPILOT_PROVIDER_BASE_URL: url,
            COPILOT_PROVIDER_API_KEY: 'none',
            COPILOT_MODEL: model,
        },
    };
}
