// Takes the screenshots in `docs/images/`, after agents have used the workbench for two minutes.

import { mkdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { agent, BINARY, configuration, serve, token } from './workbench.mjs';

const require = createRequire(`${process.env.PAGE_ENV}/`);
const { chromium } = require('playwright-core');

const [operator, entry] = token('me', '--operator');
const builtin = (name) => ({ command: BINARY, args: ['builtin', name] });
const hostile = { command: process.execPath, args: ['-e', 'console.error("Error: no browser is installed here\\nRun `npx playwright install chromium`"); process.exit(1)'] };
const file = configuration({
  auth: { anonymous: true, operators: [entry] },
  toolMode: 'auto',
  toolboxes: {
    desk: { description: 'The time of day and short notes', mcpServers: { clock: builtin('clock'), notes: builtin('notes') } },
    research: { description: 'Notes from earlier work', mcpServers: { archive: builtin('notes'), calendar: builtin('clock') } },
    web: { description: 'Browse the web like a user', mcpServers: { browser: hostile } },
  },
});
const workbench = await serve(file);
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const open = async (colorScheme, width, part) => {
  const page = await browser.newPage({ colorScheme, viewport: { width, height: 860 } });
  await page.addInitScript((text) => sessionStorage.setItem('mcp-workbench-token', text), operator);
  await page.goto(`${workbench.address}/#${part}`);
  await page.locator('#link .running').waitFor();
  return page;
};
const watching = await open('light', 1200, 'overview');
await watching.getByRole('button', { name: 'Start browser' }).click();

const [desk, research] = [await agent(workbench.address, 'desk'), await agent(workbench.address, 'research')];
const all = await agent(workbench.address, null);
await all('open_toolbox', { toolbox: 'desk' });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
for (let turn = 0; turn < 24; turn += 1) {
  const calls = 1 + Math.round(3 * (1 + Math.sin(turn / 3)));
  for (let call = 0; call < calls; call += 1) {
    await desk('now', { offset: '+02:00' });
    await research('list_notes');
  }
  await desk('add_note', { title: `step ${turn}`, text: 'done' });
  if (turn % 6 === 0) {
    await research('read_note', { title: 'missing' });
  }
  await pause(Number(process.env.PICTURE_PAUSE ?? 5000));
}

mkdirSync('docs/images', { recursive: true });
const pictures = [
  ['page-light', 'light', 1200, 'overview'],
  ['page-dark', 'dark', 1200, 'overview'],
  ['page-tools', 'light', 1200, 'tools'],
];
for (const [name, scheme, width, part] of pictures) {
  const page = await open(scheme, width, part);
  if (part === 'tools') {
    await page.getByLabel('What you want to do').fill('what time is it');
    await page.keyboard.press('Enter');
    await page.locator('#hits').getByRole('button', { name: 'now' }).first().click();
    await page.getByLabel('offset').fill('+02:00');
    await page.getByRole('button', { name: 'Call tool' }).click();
    await page.locator('#answer').getByText('Success').waitFor();
    await page.evaluate(() => scrollTo(0, 0));
  }
  await pause(1200);
  const path = `docs/images/${name}.png`;
  await page.screenshot({ path });
  process.stdout.write(`${path}: ${statSync(path).size} bytes\n`);
}
await browser.close();
await workbench.end();
