#!/usr/bin/env node
"use strict";
// Runs the executable from this platform's package; passes on arguments, streams, signals and the exit code.

const { spawn } = require("node:child_process");
const path = require("node:path");
const { version } = require("./package.json");
// Package names by `os cpu`, in order of preference.
const platforms = require("./platforms.json");

const here = `${process.platform} ${process.arch}`;

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

function installed(name) {
  const executable = process.platform === "win32" ? "mcp-workbench.exe" : "mcp-workbench";
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", executable);
  } catch {
    return undefined;
  }
}

// On musl, the report has no glibc version.
function hasGlibc() {
  // Otherwise, the report resolves the host names of all connections.
  process.report.excludeNetwork = true;
  return Boolean(process.report.getReport().header.glibcVersionRuntime);
}

function executable() {
  const names = platforms[here];
  if (!names) {
    fail(
      `mcp-workbench has no npm package for ${here}, only for ${Object.keys(platforms).join(", ")}; ` +
        "build it with `cargo install mcp-workbench`",
    );
  }
  const found = names.filter(installed);
  // npm installs only the package for this C library; other package managers install both.
  const fitting = found.filter((name) => found.length === 1 || !name.endsWith("-gnu") || hasGlibc());
  if (fitting.length === 0) {
    fail(
      `the executable for ${here} is not installed (${names.join(" or ")}): ` +
        "optional dependencies were skipped, or this folder comes from another platform; " +
        `run \`npm install --include=optional mcp-workbench@${version}\``,
    );
  }
  return installed(fitting[0]);
}

const program = executable();
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });

// A terminal signals its whole process group. Forwarding SIGINT as well would signal the executable twice, which
// forces an immediate shutdown. SIGHUP reloads the configuration; from a closed terminal it ends the executable.
const hasTerminal = [0, 1, 2].some((stream) => require("node:tty").isatty(stream));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (!hasTerminal || signal === "SIGTERM") {
      child.kill(signal);
    }
  });
}

child.on("error", (error) => fail(`failed to start ${program}: ${error.message}`));
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
