// Tests the dashboard in a real browser, with the real executable and real servers.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, describe, it } from 'node:test';
import { EVIL } from './evil.mjs';
import { agent, authority, configuration, page as page_of_command, serve, token } from './workbench.mjs';

const require = createRequire(`${process.env.PAGE_ENV}/`);
const { chromium } = require('playwright-core');
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const PARTS = ['overview', 'savings', 'tools', 'configuration'];
const [operator, operator_entry] = token('me', '--operator');
const file = configuration({ auth: { anonymous: true, operators: [operator_entry] } });

let browser;
let workbench;
before(async () => {
  workbench = await serve(file);
  // A server's tools are unknown until it has run.
  const open = await act('start', 'odd', 'hostile');
  assert.equal(open.answer, 'done', JSON.stringify(open));
  // Chromium's sandbox doesn't work as root.
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
});
after(async () => {
  await browser?.close();
  await workbench?.end();
});

/** Performs an operator action without a browser. */
async function act(what, toolbox, server) {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${operator}` };
  const body = JSON.stringify({ to: workbench.pid, ask: { ask: 'act', act: what, toolbox, server } });
  return (await fetch(`${workbench.address}/page/ask`, { method: 'POST', headers, body })).json();
}

/** Opens the page; `close` fails if it logged an error, opened a dialog, or sent a request to another origin. */
async function open(options = {}) {
  const { part = 'overview', held = operator, address = workbench.address, hash = `#${part}`, ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...rest });
  context.setDefaultTimeout(8000);
  const page = await context.newPage();
  const wrong = [];
  page.on('console', (message) => {
    // Chromium also logs rejected requests and lost connections, which the page handles.
    if (['error', 'warning'].includes(message.type()) && !/status of 401|ERR_CONNECTION|ERR_INCOMPLETE|net::/.test(message.text())) {
      wrong.push(message.text());
    }
  });
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('dialog', (dialog) => wrong.push(`a dialog: ${dialog.message()}`));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${new URL(address).origin}/`) && !url.startsWith('data:image/')) {
      wrong.push(`a request for ${url}`);
    }
  });
  await context.exposeBinding('pwned', () => wrong.push('a script from a server ran'));
  if (held) {
    await page.addInitScript((text) => sessionStorage.setItem('mcp-workbench-token', text), held);
  }
  await page.goto(`${address}/${hash}`);
  const close = async () => {
    await context.close();
    assert.deepEqual(wrong, []);
  };
  return { page, wrong, close };
}

const live = (page) => page.locator('#link .running').waitFor();
const row = (page, server) => page.locator('#servers tr').filter({ has: page.getByRole('button', { name: server, exact: true }) });
const state = (page, server, word) => row(page, server).locator('.state', { hasText: word }).waitFor();

async function choose(page, toolbox, server, tool) {
  await page.getByLabel('Toolbox', { exact: true }).selectOption(toolbox);
  await page.getByLabel('Server', { exact: true }).selectOption(server);
  await page.locator(`#call-tool option[value="${tool}"]`).waitFor({ state: 'attached' });
  await page.getByLabel('Tool', { exact: true }).selectOption(tool);
}

describe('the dashboard', { concurrency: false }, () => {
  it('loads without an error or an outside request, and shows calls of others as they come', async () => {
    const call = await agent(workbench.address, 'desk');
    const { page, close } = await open({ held: null });
    await live(page);
    await page.getByText('live, read-only').waitFor();
    await call('now');
    const first = page.locator('#calls tbody tr').first();
    await first.getByText('test-client').waitFor();
    assert.match(await first.innerText(), /ok\s+now\s+desk \/ clock\s+test-client 1\s+[\d.]+ m?s\s+\d+ B\s+\d+ B/);
    await state(page, 'clock', 'running');
    await page.locator('#agents').getByText('test-client 1').waitFor();
    await page.locator('#which', { hasText: 'test-client 1' }).waitFor();
    assert.match(await page.getByRole('img', { name: /in the last 10 minutes/ }).getAttribute('aria-label'), /^1 call/);
    await close();
  });

  it('shows why a call failed: in short, and whole in its details', async () => {
    const call = await agent(workbench.address, 'odd');
    const { page, close } = await open();
    await live(page);
    await call('refuse');
    const row = page.locator('#calls tbody tr').filter({ has: page.getByRole('button', { name: 'refuse' }) }).first();
    await row.getByText('tool error').waitFor();
    const short = page.locator('#calls .short').first();
    assert.equal(await short.innerText(), `${EVIL} [2J`);
    await row.getByRole('button', { name: 'refuse' }).click();
    const whole = await page.locator('#calls pre').first().innerText();
    assert.match(whole, /second line\nlong long .*…$/);
    assert.ok(whole.length <= 1001, `${whole.length}`);
    await page.locator('#calls .facts', { hasText: 'test-client 1' }).waitFor();
    await close();
  });

  it('shows no reasons of calls to those who may not read the text of servers', async () => {
    const [other, entry] = token('ann');
    const own = configuration({ auth: { tokens: [entry], operators: [operator_entry] } }, 'closed.json');
    const closed = await serve(own);
    const viewers = [await open({ address: closed.address, held: null }), await open({ address: closed.address })];
    await live(viewers[0].page);
    await live(viewers[1].page);
    const call = await agent(closed.address, 'desk', other);
    await call('read_note', { title: 'missing' });
    await viewers[1].page.locator('#calls .short', { hasText: 'missing' }).waitFor();
    await viewers[0].page.locator('#calls', { hasText: 'tool error' }).waitFor();
    assert.equal(await viewers[0].page.locator('#calls .short').count(), 0);
    await viewers[0].close();
    await viewers[1].close();
    await closed.end();
  });

  it('explains every column and figure', async () => {
    const { page, close } = await open();
    await live(page);
    for (const part of ['overview', 'savings']) {
      await page.locator(`nav a[href="#${part}"]`).click();
      await page.locator(`#view-${part} table`).first().waitFor();
      const unexplained = await page.evaluate((id) => [...document.querySelectorAll(`${id} thead th, #figures dt`)].filter((one) => !one.title).map((one) => one.textContent), `#view-${part}`);
      assert.deepEqual(unexplained.filter((name) => name !== 'Names'), []);
    }
    await page.getByText('What the words mean').click();
    await page.locator('#words').getByText('Connected agents that have loaded').waitFor();
    await close();
  });

  it('shows outcomes at 360 pixels, and nothing scrolls sideways', async () => {
    const call = await agent(workbench.address, 'odd');
    const { page, close } = await open({ viewport: { width: 360, height: 800 } });
    await live(page);
    await call('refuse');
    await page.locator('#calls .short').first().waitFor();
    const outcome = await page.locator('#calls tbody td', { hasText: 'tool error' }).first().boundingBox();
    assert.ok(outcome.x >= 0 && outcome.x + outcome.width <= 360, JSON.stringify(outcome));
    const wide = () => page.evaluate(() => [...document.querySelectorAll('html, .wide')].filter((one) => one.scrollWidth > one.clientWidth).map((one) => `${one.tagName} ${one.getAttribute('aria-labelledby')}: ${one.scrollWidth}`));
    assert.deepEqual(await wide(), []);
    await page.locator('#calls button').first().click();
    await page.locator('#calls .facts').waitFor();
    assert.deepEqual(await wide(), []);
    await page.locator('nav a[href="#savings"]').click();
    await page.locator('#savings table').first().waitFor();
    assert.deepEqual(await wide(), []);
    await close();
  });

  it('gives names of servers enough space at 1200 pixels', async () => {
    const { page, close } = await open({ viewport: { width: 1200, height: 800 } });
    await live(page);
    const cell = await page.locator('#servers tbody tr:not(.toolbox) th').first().boundingBox();
    assert.ok(cell.width >= 160, `${cell.width}`);
    await close();
  });

  it('is read-only without an operator token', async () => {
    const { page, close } = await open({ held: null, part: 'overview' });
    await live(page);
    await row(page, 'clock').waitFor();
    assert.equal(await page.locator('button[data-act]').count(), 0);
    await page.getByRole('link', { name: 'Tools' }).click();
    await choose(page, 'desk', 'clock', 'now');
    assert.ok(await page.getByRole('button', { name: 'Call tool' }).isDisabled());
    const refused = await page.evaluate(async () => {
      const body = (ask) => ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ to: 0, ask }) });
      const asks = [{ ask: 'act', act: 'stop', toolbox: 'desk', server: 'clock' }, { ask: 'findings' }];
      return Promise.all(asks.map(async (ask) => (await fetch('page/ask', body(ask))).status));
    });
    assert.deepEqual(refused, [403, 403]);
    await close().catch(() => {});
  });

  it('asks for another token if one is rejected', async () => {
    const { page, close } = await open({ held: 'a-token-that-is-wrong' });
    const dialog = page.getByRole('dialog', { name: 'Token' });
    await dialog.getByText('the token is invalid').waitFor();
    await dialog.getByLabel('Token').fill(operator);
    await page.keyboard.press('Enter');
    await live(page);
    await row(page, 'clock').getByRole('button', { name: /Stop|Start/ }).waitFor();
    assert.equal(await page.evaluate(() => location.hash), '#overview');
    await close();
  });

  it('starts, restarts, stops and pauses a server by mouse and keyboard', async () => {
    const { page, close } = await open();
    await live(page);
    const press = (server, name) => row(page, server).getByRole('button', { name: `${name} ${server}` });
    const call = await agent(workbench.address, 'desk');
    await call('list_notes');
    await state(page, 'notes', 'running');
    await page.getByRole('button', { name: 'notes', exact: true }).click();
    const pid = page.locator('.facts div', { hasText: 'PID' }).locator('dd');
    const before = await pid.innerText();
    await press('notes', 'Restart').click();
    await page.waitForFunction((old) => {
      const entry = [...document.querySelectorAll('.facts div')].find((one) => one.textContent.startsWith('PID'));
      return entry && ![old, 'none'].includes(entry.querySelector('dd').textContent);
    }, before);
    await press('notes', 'Stop').click();
    await state(page, 'notes', 'stopped');
    await press('notes', 'Start').click();
    await state(page, 'notes', 'running');
    // The button keeps its focus across updates.
    const pause = press('notes', 'Pause');
    await pause.focus();
    await page.waitForTimeout(1500);
    await page.keyboard.press('Enter');
    await state(page, 'notes', 'paused');
    assert.match(JSON.stringify(await call('list_notes')), /paused/, 'a call must not start a paused server');
    await press('notes', 'Resume').focus();
    await page.keyboard.press('Space');
    await state(page, 'notes', 'stopped');
    await press('notes', 'Start').focus();
    await page.keyboard.press('Enter');
    await state(page, 'notes', 'running');
    await page.getByText('notes in desk: started').waitFor();
    await close();
  });

  it('shows search results with the matched words, and opens the call form', async () => {
    const { page, close } = await open({ part: 'tools' });
    await live(page);
    await page.getByLabel('What you want to do').fill('what time is it');
    await page.keyboard.press('Enter');
    const best = page.locator('#hits tbody tr').first();
    await best.getByRole('button', { name: 'now' }).waitFor();
    assert.ok((await best.locator('mark').count()) > 0, await best.innerText());
    await best.getByRole('button', { name: 'now' }).click();
    await page.getByLabel('offset').waitFor();
    await page.getByRole('button', { name: 'Call tool' }).click();
    await page.locator('#answer').getByText('Success').waitFor();
    await close();
  });

  it('sends the entered arguments with their exact digits', async () => {
    const { page, close } = await open({ part: 'tools' });
    await live(page);
    await choose(page, 'odd', 'hostile', 'echo');
    const run = page.getByRole('button', { name: 'Call tool' });
    await page.getByLabel(/^text/).fill('a "b"\n</script>');
    await run.click();
    await page.locator('#answer').getByText('size is required').waitFor();
    await page.getByLabel(/^size/).fill('12345678901234567890');
    await page.getByRole('textbox', { name: 'ratio' }).fill('0.10');
    await page.getByLabel('is_long').selectOption('yes');
    await page.getByRole('button', { name: 'Add to tags' }).click();
    await page.getByRole('textbox', { name: 'tags 1' }).fill('x');
    await page.getByLabel('folder').fill('here');
    await run.click();
    const expected = '{"text":"a \\"b\\"\\n</script>","size":12345678901234567890,"ratio":0.10,"is_long":true,"tags":["x"],"place":{"folder":"here"}}';
    await page.locator('#answer pre').first().waitFor();
    assert.equal(await page.locator('#answer pre').first().innerText(), expected);
    await page.getByRole('checkbox', { name: 'Edit as JSON' }).check();
    const json = page.getByLabel('Arguments as JSON');
    assert.match(await json.inputValue(), /"size": 12345678901234567890,\n {2}"ratio": 0.10/);
    await json.fill('{"text":"t","size":7,"other":[1.50]}');
    await run.focus();
    await page.keyboard.press('Enter');
    await page.locator('#answer pre', { hasText: '"other":[1.50]' }).waitFor();
    // The form has no field for `other`, so the JSON view stays.
    await page.getByRole('checkbox', { name: 'Edit as JSON' }).click();
    await page.getByText('no field for some of this JSON').waitFor();
    await close();
  });

  it('asks for JSON if the schema needs too many fields', async () => {
    const { page, close } = await open({ part: 'tools' });
    await live(page);
    await choose(page, 'odd', 'hostile', 'endless');
    await page.locator('#call-about').getByText('Enter the arguments as JSON: the schema needs more than').waitFor();
    await page.getByLabel('Arguments as JSON').fill('{"field1":{}}');
    await page.getByRole('button', { name: 'Call tool' }).click();
    await page.locator('#answer pre', { hasText: '{"field1":{}}' }).waitFor();
    // The same in a part that is only built on request.
    await choose(page, 'odd', 'hostile', 'rows');
    await page.getByRole('button', { name: 'Add to rows' }).click();
    await page.getByRole('alert').getByText('for more: the schema needs more than').waitFor();
    assert.equal(await page.locator('#call-about .item').count(), 0);
    await close();
  });

  it('is replaced by newer dashboards, and does not reconnect by itself', async () => {
    const [viewer, acting] = [await open({ held: null }), await open()];
    await live(viewer.page);
    await live(acting.page);
    const control = new AbortController();
    for (let number = 0; number < 40; number += 1) {
      const events = await fetch(`${workbench.address}/page/events`, { signal: control.signal });
      assert.equal(events.status, 200);
    }
    await viewer.page.getByText('a newer dashboard replaced this one').waitFor();
    const again = viewer.page.getByRole('button', { name: 'Reconnect' });
    await again.waitFor();
    await acting.page.locator('#link').getByText('live', { exact: true }).waitFor();
    control.abort();
    await again.click();
    await live(viewer.page);
    await viewer.close();
    await acting.close();
  });

  it('asks for confirmation of a dangerous call', async () => {
    const { page, close } = await open({ part: 'tools' });
    await live(page);
    await choose(page, 'odd', 'hostile', 'danger');
    const run = page.getByRole('button', { name: 'Call tool', exact: true }).first();
    const dialog = page.getByRole('dialog', { name: 'Confirm call' });
    await run.click();
    await dialog.getByText('danger').first().waitFor();
    await page.keyboard.press('Escape');
    await page.locator('#answer').getByText('The call was not confirmed').waitFor();
    await run.click();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.locator('#answer').getByText('The call was not confirmed').waitFor();
    await run.click();
    await dialog.getByRole('button', { name: 'Call tool' }).click();
    await page.locator('#answer').getByText('everything deleted').waitFor();
    await close();
  });

  it('shows server output as text, never as markup', async () => {
    const { page, close } = await open();
    await live(page);
    await page.getByRole('button', { name: 'Start broken' }).click();
    await state(page, 'broken', 'failed');
    await page.locator('.detail pre', { hasText: EVIL }).waitFor();
    await page.locator('#servers', { hasText: EVIL }).waitFor();
    await page.getByRole('link', { name: 'Tools' }).click();
    await choose(page, 'odd', 'hostile', 'show');
    await page.getByRole('button', { name: 'Call tool' }).click();
    await page.locator('#answer pre').first().waitFor();
    assert.equal(await page.locator('#answer pre').first().innerText(), EVIL);
    assert.equal(await page.locator('#answer img').count(), 1, 'only the PNG image is shown');
    assert.equal(await page.locator('#answer details').count(), 1, 'the long text is collapsed');
    await page.getByLabel('What you want to do').fill(`echo ${EVIL}`);
    await page.keyboard.press('Enter');
    await page.locator('#hits').getByText('onerror').first().waitFor();
    await choose(page, 'odd', 'hostile', 'echo');
    await page.locator('.description', { hasText: EVIL }).waitFor();
    for (const name of ['script:not([src="page/app.js"])', 'img:not(.answer)', 'main a', 'iframe']) {
      assert.equal(await page.locator(name).count(), 0, name);
    }
    await close();
  });

  it('shows the configuration, and the unused tools with a patch', async () => {
    const { page, close } = await open({ part: 'configuration' });
    await live(page);
    await page.locator('.code', { hasText: '"toolMode": "direct"' }).waitFor();
    await page.getByRole('link', { name: 'Savings' }).click();
    await page.locator('#savings').getByText('Agents with it open').waitFor();
    await page.locator('#unused').getByText('elapsed').first().waitFor();
    await page.locator('#patch', { hasText: '!elapsed' }).waitFor();
    await close();
  });

  it('opens the sign-in page in a new tab and starts the server afterwards', async () => {
    const hub = await authority();
    const own = configuration({
      auth: { anonymous: true, operators: [operator_entry] },
      toolboxes: { far: { description: 'Requires sign-in', mcpServers: { hub: { url: hub.mcp, oauth: { account: 'shared' } } } } },
    }, 'far.json');
    const far = await serve(own);
    const { page, close } = await open({ address: far.address });
    await live(page);
    await row(page, 'hub').getByRole('button', { name: 'Start hub' }).click();
    await row(page, 'hub').locator('.state', { hasText: 'sign-in required' }).waitFor();
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      row(page, 'hub').getByRole('button', { name: 'Sign in' }).click(),
    ]);
    await tab.getByText('You are signed in').waitFor();
    await state(page, 'hub', 'running');
    assert.equal(await tab.evaluate(() => opener), null);
    await close();
    await far.end();
    hub.end();
  });

  it('shows unreviewed definitions and the command that accepts them', async () => {
    const own = configuration({ auth: { anonymous: true, operators: [operator_entry] }, onDefinitionChange: 'quarantine' }, 'locked.json');
    const locked = await serve(own);
    const { page, close } = await open({ address: locked.address });
    await live(page);
    await row(page, 'clock').getByRole('button', { name: 'Start clock' }).click();
    await state(page, 'clock', 'drift');
    const drift = page.locator('.drift').first();
    await drift.getByText('from workbench.lock (hidden from agents)').waitFor();
    await drift.getByText('mcp-workbench lock --accept clock').waitFor();
    await close();
    await locked.end();
  });

  it('reports a lost connection and reconnects', async () => {
    const { page, close } = await open();
    await live(page);
    const { port } = workbench;
    await workbench.end();
    await page.getByText('Not connected:').waitFor();
    await row(page, 'clock').waitFor();
    workbench = await serve(file, port);
    await live(page);
    await state(page, 'clock', 'stopped');
    await close();
  });

  it('has no accessibility violations, light and dark, wide and at 360 pixels', async () => {
    for (const [colorScheme, width] of [['light', 1280], ['dark', 360]]) {
      const { page, close } = await open({ colorScheme, viewport: { width, height: 800 }, bypassCSP: true });
      await live(page);
      await page.getByRole('button', { name: 'clock', exact: true }).click();
      await page.evaluate(AXE);
      for (const part of PARTS) {
        await page.locator(`nav a[href="#${part}"]`).click();
        await page.locator(`#view-${part}`).waitFor();
        if (part === 'tools') {
          await choose(page, 'odd', 'hostile', 'echo');
        }
        const found = await page.evaluate(() => axe.run());
        const violations = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(', ')}`);
        assert.deepEqual(violations, [], `${colorScheme} ${width} ${part}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${part} is ${wide} wide at ${width}`);
      }
      await close();
    }
  });

  it('is served by the command to everyone who has its URL', async () => {
    const command = await page_of_command();
    const { origin } = new URL(command.address);
    const stranger = await open({ address: origin, held: null });
    await stranger.page.getByRole('dialog', { name: 'Token' }).waitFor();
    assert.equal(await stranger.page.locator('#servers tr').count(), 0);
    await stranger.close();
    const { page, close } = await open({ address: origin, hash: new URL(command.address).hash, held: null });
    await live(page);
    assert.equal(await page.evaluate(() => location.hash), '');
    const press = (name) => row(page, 'clock').getByRole('button', { name: `${name} clock` });
    await press('Start').click();
    await state(page, 'clock', 'running');
    await press('Stop').click();
    await state(page, 'clock', 'stopped');
    await command.end();
    await page.getByText('Not connected:').waitFor();
    await close();
  });
});
