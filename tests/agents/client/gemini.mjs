// Gemini CLI, in non-interactive mode.

import { join } from 'node:path';
import { write } from './files.mjs';

export const name = 'Gemini CLI';
export const model = 'gemini-2.5-pro';
export const program = '@google/gemini-cli/bundle/gemini.js';

export function plan({ home, url, servers, prompt }) {
    const mcpServers = Object.fromEntries(
        Object.entries(servers).map(([name, server]) => [name, { ...server, trust: true }]),
    );
    write(join(home, '.gemini/settings.json'), {
        mcpServers,
        security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
        general: { enableAutoUpdate: false, disableAutoUpdate: true },
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
            GOOGLE_GEMINI_BASE_URL: url,
            GEMINI_API_KEY: 'none',
            GEMINI_CLI_NO_RELAUNCH: 'true',
        },
    };
}
