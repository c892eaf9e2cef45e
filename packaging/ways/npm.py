"""npm: a small launcher, and for each platform a package with the executable."""

import base64
import contextlib
import hashlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

from ways import agent
from ways.project import PACKAGING, PROGRAM, TARGETS, VERSION, Executable, Failed, Trial
from ways.project import ROOT, run, template


def make(executables: list[Executable], to: Path) -> list[Path]:
    """Packs the launcher and a package for each executable; returns the archives."""
    to.mkdir(parents=True)
    folders = [_platform(executable, to) for executable in executables]
    return [_pack(folder, to) for folder in [_launcher(to), *folders]]


def _launcher(to: Path) -> Path:
    folder = to / "launcher"
    folder.mkdir()
    package = json.loads(template("npm/package.json"))
    platforms: dict[str, list[str]] = {}
    # List every platform, even without an executable here: a release has all of them.
    for target in TARGETS.values():
        package["optionalDependencies"][target.npm_name] = VERSION
        platforms.setdefault(f"{target.os} {target.cpu}", []).append(target.npm_name)
    (folder / "package.json").write_text(json.dumps(package, indent=2) + "\n")
    (folder / "platforms.json").write_text(json.dumps(platforms, indent=2) + "\n")
    (folder / "README.md").write_text(template("npm/README.md"))
    shutil.copy(PACKAGING / "npm" / "launcher.js", folder)
    shutil.copy(ROOT / "LICENSE", folder)
    return folder


def _platform(executable: Executable, to: Path) -> Path:
    target = executable.target
    folder = to / target.triple
    (folder / "bin").mkdir(parents=True)
    words = {"NPM_NAME": target.npm_name, "TRIPLE": target.triple, "OS": target.os}
    package = json.loads(template("npm/platform.json", CPU=target.cpu, **words))
    if target.libc:
        package["libc"] = [target.libc]
    (folder / "package.json").write_text(json.dumps(package, indent=2) + "\n")
    shutil.copy(executable.path, folder / "bin" / target.executable)
    (folder / "bin" / target.executable).chmod(0o755)
    for paper in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / paper, folder)
    return folder


def _pack(folder: Path, to: Path) -> Path:
    printed = run(["npm", "pack", "--json", "--pack-destination", to, folder])
    shutil.rmtree(folder)
    # Up to version 11, npm prints a list; later versions print an object keyed by name.
    packed = json.loads(printed)
    packed = packed[0] if isinstance(packed, list) else next(iter(packed.values()))
    return to / packed["filename"]


def trial(archives: list[Path], executable: Executable, folder: Path) -> list[Trial]:
    """Installs the archives, then runs them with `npx` from a local registry."""
    config = agent.write_config(folder)
    ours = executable.target.npm_name.replace("@", "").replace("/", "-")
    names = [f"{name}-{VERSION}.tgz" for name in (PROGRAM, ours)]
    wanted = [path for path in archives if path.name in names]
    size = sum(path.stat().st_size for path in wanted)

    prefix = folder / "prefix"
    home = agent.environment(folder / "home", npm_config_update_notifier="false")
    # Install offline, without the packages for other platforms.
    started = time.monotonic()
    words = ["npm", "install", "--global", "--offline", "--no-audit", "--no-fund"]
    run([*words, "--prefix", prefix, *wanted], env=home, cwd=folder)
    seconds = time.monotonic() - started
    program = prefix / "bin" / PROGRAM
    _check_version([program], env=home)
    answer = agent.answer_seconds([program, "--config", config], env=home)
    _check_ends(program, config, home)
    trials = [Trial("npm", f"npm install -g {PROGRAM}", size, seconds, answer)]

    with _registry(archives) as address:
        user = agent.environment(
            folder / "npx-home", npm_config_registry=address, npm_config_update_notifier="false"
        )
        npx = ["npx", "--yes", PROGRAM]
        started = time.monotonic()
        _check_version(npx, env=user, cwd=folder)
        seconds = time.monotonic() - started
        answer = agent.answer_seconds([*npx, "--config", config], env=user, cwd=folder)
        found = sorted(path.name for path in (folder / "npx-home").glob(".npm/_npx/*/*/@*/*"))
        if found != [executable.target.npm_name.split("/")[1]]:
            raise Failed(f"npx installed {found}")
        trials.append(Trial("npx", f"npx {PROGRAM}", size, seconds, answer))
    return trials


def _check_version(command: list, **options) -> None:
    printed = run([*command, "--version"], **options).strip()
    if printed != f"{PROGRAM} {VERSION}":
        raise Failed(f"{command[0]} --version printed `{printed}`")


def _check_ends(program: Path, config: Path, env: dict[str, str]) -> None:
    """Checks that signals reach the executable, and that the launcher exits as the executable does."""
    one = agent.Agent([program, "--config", config], env=env)
    one.greet()
    # SIGHUP reloads the configuration.
    one.process.send_signal(signal.SIGHUP)
    agent.check_tools(one.ask(agent.LIST))
    one.leave()
    for name in ("SIGTERM", "SIGINT", "SIGKILL"):
        one = agent.Agent([program, "--config", config], env=env)
        one.greet()
        executable = _child(one.process.pid)
        one.process.send_signal(getattr(signal, name))
        if name == "SIGKILL":
            # Act as a client that has exited: close the pipe.
            one.process.stdin.close()
        one.process.wait(agent.DEADLINE)
        deadline = time.monotonic() + 20
        while Path(f"/proc/{executable}").exists():
            if time.monotonic() > deadline:
                os.kill(executable, signal.SIGKILL)
                raise Failed(f"the executable kept running after {name} to the launcher")
            time.sleep(0.02)
    code = subprocess.run([program, "--no-such-option"], env=env, capture_output=True).returncode
    if code != 2:
        raise Failed(f"wrong usage exited with {code}, expected 2")


def _child(parent: int) -> int:
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


@contextlib.contextmanager
def _registry(archives: list[Path]):
    """Serves the archives on loopback with npm's registry protocol."""
    files = {path.name: path.read_bytes() for path in archives}
    described = {}
    for path in archives:
        package = json.loads(run(["tar", "-xzOf", path, "package/package.json"]))
        described[package["name"]] = (path.name, package)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = urllib.parse.unquote(self.path).lstrip("/")
            body = files.get(wanted.removeprefix("-/"))
            if body is None and wanted in described:
                body = json.dumps(self._description(*described[wanted])).encode()
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def _description(self, file: str, package: dict) -> dict:
            digest = base64.b64encode(hashlib.sha512(files[file]).digest()).decode()
            dist = {"tarball": f"{address}-/{file}", "integrity": f"sha512-{digest}"}
            versions = {VERSION: {**package, "dist": dist}}
            return {"name": package["name"], "dist-tags": {"latest": VERSION}, "versions": versions}

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address
    finally:
        server.shutdown()
