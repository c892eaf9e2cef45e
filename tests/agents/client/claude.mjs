// Claude Code, in print mode.

import { join } from 'node:path';
import { write } from './files.mjs';

export const name = 'Claude Code';
export const model = 'sonnet';
export const program = '@anthropic-ai/claude-code-linux-x64/claude';

/** Writes the configuration; returns the command and the environment. */
export function plan({ home, url, servers, prompt }) {
    const mcp = write(join(home, 'mcp.json'), {
        mcpServers: Object.fromEntries(
            Object.entries(servers).map(([name, server]) => [name, { type: 'stdio', ...server }]),
        ),
    });
    const { args, env } = launch({ url, prompt });
    return {
        args: [...args, `--mcp-config=${mcp}`, '--strict-mcp-config'],
        env: { ...env, CLAUDE_CONFIG_DIR: join(home, '.claude') },
    };
}

/** The command and environment, if the home already has its configuration. */
export function launch({ url, prompt }) {
    return {
        args: ['--print', prompt, `--model=${model}`, '--permission-mode=bypassPermissions'],
        env: {
            ANTHROPIC_BASE_URL: url,
            ANTHROPIC_API_KEY: 'none',
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
            DISABLE_AUTOUPDATER: '1',
            // As root, Claude Code skips permissions only in a sandbox.
            IS_SANDBOX: '1',
            MCP_TIMEOUT: '120000',
        },
    };
}
