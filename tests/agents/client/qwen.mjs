// Qwen Code, in non-interactive mode.

import { join } from 'node:path';
import { write } from './files.mjs';

export const name = 'Qwen Code';
export const model = 'qwen3-coder-plus';
export const program = '@qwen-code/qwen-code/cli-entry.js';

/** What `setup` adds to the workbench's entry: its own tools stay out of Qwen Code's tool search. */
export const entry = { alwaysLoadTools: true };

export function plan({ home, url, servers, prompt }) {
    const mcpServers = Object.fromEntries(
        Object.entries(servers).map(([name, server]) => [name, { ...server, trust: true }]),
    );
    write(join(home, '.qwen/settings.json'), {
        mcpServers,
        security: { auth: { selectedType: 'openai' } },
        general: { enableAutoUpdate: false },
        privacy: { usageStatisticsEnabled: false },
        telemetry: { enabled: false },
    });
    return launch({ url, prompt });
}

/** The command and environment, if the home already has its configuration. */
export function launch({ url, prompt }) {
    return {
        args: [`--model=${model}`, '--approval-mode=yolo', '--prompt', prompt],
        env: {
            OPENAI_BASE_URL: `${url}/v1`,
            OPENAI_API_KEY: 'none',
            OPENAI_MODEL: model,
        },
    };
}
