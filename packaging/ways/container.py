"""Container images, built with Podman: only the executable, with Node, and with Node and uv.

Not every machine can reach a registry with the Dockerfile's base images. The test replaces them with images made
from Debian packages and this machine's Node.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from ways import agent
from ways.elf import Elf
from ways.project import PACKAGING, PROGRAM, ROOT, VERSION, Executable, Failed, Skipped, Trial, run
from ways.tools import python_tool, system_tool

DOCKERFILE = PACKAGING / "container" / "Dockerfile"

# Disable the settings that fail in some virtual machines.
CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "{0}/graph"\nrunroot = "{0}/run"\n'

# Other programs to run in each image.
PROGRAMS = {"plain": [], "node": ["npx"], "full": ["npx", "python3", "uvx"]}


def make(_: list[Executable], __: Path) -> list[Path]:
    """Lints the Dockerfile. `trial` builds the images in a temporary store."""
    run([python_tool("hadolint"), DOCKERFILE])
    return [DOCKERFILE]


def trial(_: list[Path], executable: Executable, folder: Path) -> Iterator[Trial]:
    """Builds the images and tests each with an agent, without root and with a read-only file system."""
    static = Path(os.environ.get("MUSL") or executable.path).resolve()
    if not Elf(static).is_static:
        raise Skipped("needs a static executable; set MUSL")
    with engine(folder) as podman:
        _lay_program(static, folder)
        yield _trial(podman, "plain", [], folder)
        try:
            bases = _bases(podman, folder)
        except Skipped as reason:
            print(f"container: skipped the images with Node and uv: {reason}", flush=True)
            return
        for image in ("node", "full"):
            yield _trial(podman, image, bases, folder)


@contextlib.contextmanager
def engine(folder: Path):
    """Runs Podman with a temporary store, and empties the store afterwards."""
    podman, _ = system_tool("podman"), system_tool("runc")
    folder.mkdir(parents=True)
    (folder / "containers.conf").write_text(CONTAINERS)
    (folder / "storage.conf").write_text(STORAGE.format(folder))
    env = {
        **os.environ,
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }

    def call(*words, **options) -> str:
        return run([podman, *words], env=env, cwd=folder, **options)

    call.command = podman
    call.env = env
    yield call


def _lay_program(static: Path, folder: Path) -> None:
    """Creates the files that the Dockerfile copies from its build stage."""
    root = folder / "program"
    (root / "out" / "home").mkdir(parents=True)
    shutil.copy(static, root / "out" / PROGRAM)
    certificates = Path("etc/ssl/certs/ca-certificates.crt")
    (root / certificates).parent.mkdir(parents=True)
    shutil.copy("/" / certificates, root / certificates)


def _import(podman, root: Path, name: str) -> None:
    archive = root.with_suffix(".tar")
    run(["tar", "-C", root, "-cf", archive, "."])
    podman("import", "--quiet", archive, f"localhost/{name}")
    archive.unlink()


def _bases(podman, folder: Path) -> list[str]:
    """Builds replacements for the Node and Python images; returns the build arguments that select them."""
    if os.geteuid() != 0:
        raise Skipped("building their base images requires root")
    debootstrap, node = system_tool("debootstrap"), system_tool("node")
    modules = Path(run(["npm", "root", "--global"]).strip())
    root = folder / "debian"
    packages = "ca-certificates,libstdc++6,python3-pip"
    run([debootstrap, "--variant=minbase", f"--include={packages}", "bookworm", root])
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs/ca-certificates.crt")
    _import(podman, root, "python")
    shutil.copy(node.resolve(), root / "usr/local/bin/node")
    shutil.copytree(modules / "npm", root / "usr/local/lib/node_modules/npm", symlinks=True)
    for name in ("npm", "npx"):
        (root / "usr/local/bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")
    _import(podman, root, "node")
    shutil.rmtree(root)
    names = {"NODE_IMAGE": "node", "PYTHON_IMAGE": "python"}
    return [f"--build-arg={key}=localhost/{name}" for key, name in names.items()]


def _trial(podman, image: str, bases: list[str], folder: Path) -> Trial:
    name = f"localhost/{PROGRAM}:{image}"
    # Import it for every build: Podman removes the image of a stage that adds no layer.
    _import(podman, folder / "program", "program")
    started = time.monotonic()
    # Build a single layer: this store copies every layer completely.
    build = ["build", "--quiet", "--layers=false", "--isolation=chroot", "--network=host"]
    words = ["--pull=never", f"--file={DOCKERFILE}", f"--target={image}", f"--tag={name}"]
    podman(*build, *words, "--build-arg=PROGRAM=localhost/program", *bases, ROOT)
    seconds = time.monotonic() - started

    config = agent.write_config(folder / "config").parent
    for path in (config, config / "workbench-config.json"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    # No capabilities, no writable files except the home folder, and no network.
    mount = f"--volume={config}:/config:ro"
    narrow = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--network=none"]
    start = ["run", "--rm", "--interactive", *narrow, mount]
    printed = podman(*start, name, "--version").strip()
    if printed != f"{PROGRAM} {VERSION}":
        raise Failed(f"{name} --version printed `{printed}`")
    for program in PROGRAMS[image]:
        podman(*start, f"--entrypoint={program}", name, "--version")
    answer = agent.answer_seconds([podman.command, *start, name], env=podman.env)
    archive = folder / "image.tar"
    podman("save", "--quiet", f"--output={archive}", name)
    run(["gzip", "-1", archive])
    size = archive.with_suffix(".tar.gz").stat().st_size
    archive.with_suffix(".tar.gz").unlink()
    command = f"docker run -i --rm -v FOLDER:/config:ro {PROGRAM}:{image}"
    return Trial(f"container, {image}", command, size, seconds, answer, "built on replacement base images")
