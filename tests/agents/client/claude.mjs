// Claude Code, in print mode.

import { join } from 'node:path';
import { write } from './files.mjs';

export const name = 'Claude Code';
export const program = '@anthropic-ai/claude-code-linux-x64/claude';

/** What is written, run and set in its environment. */
export function plan({ home, url, servers, prompt }) {
    const mcp = write(join(home, 'mcp.json'), {
        mcpServers: Object.fromEntries(
            Object.entries(servers).map(([name, server]) => [name, { type: 'stdio', ...server }]),
        ),
    });
    return {
        args: [
            '--print',
            prompt,
            '--model=sonnet',
            `--mcp-config=${mcp}`,
            '--strict-mcp-config',
            '--permission-mode=bypassPermissions',
        ],
        env: {
            ANTHROPIC_BASE_URL: url,
            ANTHROPIC_API_KEY: 'none',
            CLAUDE_CONFIG_DIR: join(home, '.claude'),
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
            DISABLE_AUTOUPDATER: '1',
            // As root it refuses to skip permissions elsewhere.
            IS_SANDBOX: '1',
            MCP_TIMEOUT: '120000',
        },
    };
}
