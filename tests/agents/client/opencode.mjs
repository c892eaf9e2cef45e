// opencode, with its `run` command.

import { join } from 'node:path';
import { write } from './files.mjs';

export const name = 'opencode';
export const model = 'any model';
export const program = 'opencode-linux-x64/bin/opencode';

export function plan({ home, url, servers, prompt }) {
    const mcp = Object.entries(servers).map(([name, { command, args, env = {} }]) => [
        name,
        { type: 'local', command: [command, ...args], environment: env, timeout: 120_000 },
    ]);
    const config = write(join(home, 'opencode.json'), {
        model: 'scripted/model',
        small_model: 'scripted/model',
        share: 'disabled',
        autoupdate: false,
        permission: 'allow',
        provider: {
            scripted: {
                npm: '@ai-sdk/openai-compatible',
                name: 'scripted',
                options: { baseURL: `${url}/v1`, apiKey: 'none' },
                models: {
                    model: {
                        name: 'model',
                        tool_call: true,
                        limit: { context: 200_000, output: 8_000 },
                    },
                },
            },
        },
        mcp: Object.fromEntries(mcp),
    });
    const { args, env } = launch({ prompt });
    return { args, env: { ...env, OPENCODE_CONFIG: config } };
}

/** The command and environment, if the home already has its configuration. */
export function launch({ prompt }) {
    return {
        args: ['run', prompt],
        env: {
            OPENCODE_DISABLE_AUTOUPDATE: '1',
            OPENCODE_DISABLE_MODELS_FETCH: '1',
            OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
            OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
        },
    };
}
