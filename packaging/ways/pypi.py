"""PyPI: a wheel for each platform, with the executable as a script."""

import base64
import csv
import hashlib
import io
import sys
import time
import zipfile
from pathlib import Path

from ways import agent
from ways.elf import Elf
from ways.project import DESCRIPTION, LICENSE, PACKAGING, PROGRAM, PYPI_NAME, REPOSITORY, ROOT
from ways.project import VERSION, Executable, Failed, Trial, run, template
from ways.tools import python_tool

MODULE = PYPI_NAME.replace("-", "_")

ENTRY_POINTS = f"[console_scripts]\n{PYPI_NAME} = {MODULE}:main\n"

METADATA = f"""\
Metadata-Version: 2.4
Name: {PYPI_NAME}
Version: {VERSION}
Summary: {DESCRIPTION}
License-Expression: {LICENSE}
License-File: LICENSE
License-File: NOTICE
Keywords: mcp,gateway,agent,tools,llm
Requires-Python: >=3.8
Project-URL: Repository, {REPOSITORY}
Description-Content-Type: text/markdown

"""


def make(executables: list[Executable], to: Path) -> list[Path]:
    """Creates a wheel for each executable."""
    to.mkdir(parents=True)
    return [_wheel(executable, to) for executable in executables]


def platform(executable: Executable) -> str:
    """The wheel's platform tag: the oldest platform that the executable supports."""
    if executable.target.wheel:
        return executable.target.wheel
    elf = Elf(executable.path)
    # The `manylinux_x_y` tags start here.
    major, minor = max(elf.glibc(), (2, 17))
    return f"manylinux_{major}_{minor}_{elf.machine}"


def _wheel(executable: Executable, to: Path) -> Path:
    name = f"{MODULE}-{VERSION}"
    tags = platform(executable)
    path = to / f"{name}-py3-none-{tags}.whl"
    info = f"{name}.dist-info"
    lines = [f"Tag: py3-none-{tag}\n" for tag in tags.split(".")]
    wheel = "Wheel-Version: 1.0\nGenerator: mcp-workbench\nRoot-Is-Purelib: false\n"
    launcher = (PACKAGING / "pypi" / "launcher.py").read_bytes()
    files = [
        (f"{MODULE}/__init__.py", launcher, 0o644),
        (f"{MODULE}/__main__.py", f"from {MODULE} import main\n\nmain()\n".encode(), 0o644),
        (f"{name}.data/scripts/{executable.target.executable}", executable.path.read_bytes(), 0o755),
        (f"{info}/METADATA", (METADATA + template("pypi/README.md")).encode(), 0o644),
        (f"{info}/WHEEL", (wheel + "".join(lines)).encode(), 0o644),
        (f"{info}/entry_points.txt", ENTRY_POINTS.encode(), 0o644),
    ]
    for paper in ("LICENSE", "NOTICE"):
        files.append((f"{info}/licenses/{paper}", (ROOT / paper).read_bytes(), 0o644))
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for file, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([file, f"sha256={digest}", len(data)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files.append((f"{info}/RECORD", record.getvalue().encode(), 0o644))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for file, data, mode in files:
            # A fixed date makes the wheel reproducible.
            entry = zipfile.ZipInfo(file, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    return path


def trial(wheels: list[Path], executable: Executable, folder: Path) -> list[Trial]:
    """Installs the wheel with pip, and runs it with `uvx` from a folder."""
    config = agent.write_config(folder)
    wheel = next(path for path in wheels if path.name.endswith(f"{platform(executable)}.whl"))
    size = wheel.stat().st_size

    home = agent.environment(folder / "home")
    venv = folder / "venv"
    run([sys.executable, "-m", "venv", venv])
    started = time.monotonic()
    pip = [venv / "bin" / "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    run([*pip, wheel], env=home)
    seconds = time.monotonic() - started
    for program in (PROGRAM, PYPI_NAME):
        printed = run([venv / "bin" / program, "--version"], env=home).strip()
        if printed != f"{PROGRAM} {VERSION}":
            raise Failed(f"{program} --version printed `{printed}`")
    run([venv / "bin" / "python", "-m", MODULE, "--version"], env=home)
    answer = agent.answer_seconds([venv / "bin" / PROGRAM, "--config", config], env=home)
    run([venv / "bin" / "pip", "uninstall", "--quiet", "--yes", PYPI_NAME], env=home)
    left = [path for path in venv.rglob("*workbench*")]
    if left:
        raise Failed(f"pip left {left[0]} behind")
    trials = [Trial("pip", f"pip install {PYPI_NAME}", size, seconds, answer)]

    uvx = [python_tool("uvx"), "--python", sys.executable, "--no-index", "--find-links"]
    uvx += [wheel.parent, PYPI_NAME]
    started = time.monotonic()
    run([*uvx, "--version"], env=home)
    seconds = time.monotonic() - started
    answer = agent.answer_seconds([*uvx, "--config", config], env=home)
    return [*trials, Trial("uvx", f"uvx {PYPI_NAME}", size, seconds, answer)]
