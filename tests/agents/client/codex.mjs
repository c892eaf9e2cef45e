// Codex, with models of three kinds: one in code mode, one with a tool search, and one that Codex has no settings for.

import { join } from 'node:path';
import { write } from './files.mjs';

function codex(model, kind, settings = {}) {
    return {
        name: 'Codex',
        model: kind ? `${model} (${kind})` : 'unknown model',
        settings,
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

/** What `setup` writes if Codex has no settings for the configured model. */
const NO_CODE_MODE = { clients: { 'codex-mcp-client': { hasCodeMode: false } } };

export const code = codex('gpt-6.2-sol', 'code mode');
export const known = codex('gpt-5.5', 'tool search');
export const unknown = codex('scripted-model', undefined, NO_CODE_MODE);
