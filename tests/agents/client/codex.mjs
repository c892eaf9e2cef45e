// Codex, with a known and an unknown model: for the known model it hides MCP tools behind its own tool search.

import { join } from 'node:path';
import { write } from './files.mjs';

function codex(name, model) {
    return {
        name,
        program: '@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex',
        plan: ({ home, url, servers, prompt }) => {
            const lines = [
                `model = ${text(model)}`,
                `model_provider = "scripted"`,
                '[model_providers.scripted]',
                `name = "scripted"`,
                `base_url = ${text(`${url}/v1`)}`,
                `wire_api = "responses"`,
                'requires_openai_auth = false',
                '[analytics]',
                'enabled = false',
            ];
            for (const [name, { command, args, env = {} }] of Object.entries(servers)) {
                lines.push(`[mcp_servers.${name}]`, `command = ${text(command)}`);
                lines.push(
                    `args = [${args.map(text).join(', ')}]`,
                    'startup_timeout_sec = 120',
                    'required = true',
                );
                lines.push(`[mcp_servers.${name}.env]`);
                for (const [key, value] of Object.entries(env))
                    lines.push(`${key} = ${text(value)}`);
            }
            write(join(home, '.codex/config.toml'), `${lines.join('\n')}\n`);
            const { args, env } = launch({ prompt });
            return { args, env: { ...env, CODEX_HOME: join(home, '.codex') } };
        },
        launch,
    };
}

/** The command and environment, if the home already has its configuration. */
function launch({ prompt }) {
    return {
        args: [
            'exec',
            '--skip-git-repo-check',
            '--dangerously-bypass-approvals-and-sandbox',
            prompt,
        ],
        env: {},
    };
}

/** A TOML string: every JSON string is also a valid TOML string. */
function text(value) {
    return JSON.stringify(value);
}

export const known = codex('Codex, gpt-5.5', 'gpt-5.5');
export const unknown = codex('Codex, unknown model', 'scripted-model');
