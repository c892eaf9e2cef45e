"""Archives: the executable, its license and readme, shell completions and man pages."""

import gzip
import hashlib
import io
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from ways import agent
from ways.elf import Elf
from ways.project import MANIFEST, PAPERS, PROGRAM, REPOSITORY, ROOT, VERSION, Executable, Failed
from ways.project import Trial, run

SHELLS = {"bash": f"{PROGRAM}.bash", "fish": f"{PROGRAM}.fish", "zsh": f"_{PROGRAM}"}


def make(executables: list[Executable], to: Path) -> list[Path]:
    """Creates an archive for each executable."""
    to.mkdir(parents=True)
    extras = _extras(executables)
    return [_archive(executable, extras, to) for executable in executables]


def name(executable: Executable) -> str:
    """The archive's name, which `cargo binstall` and the Homebrew formula also use."""
    suffix = ".zip" if executable.target.os == "win32" else ".tar.gz"
    return f"{PROGRAM}-{executable.target.triple}{suffix}"


def address(file: str) -> str:
    """The download URL of a release file."""
    return f"{REPOSITORY}/releases/download/v{VERSION}/{file}"


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def runs_here(executable: Executable) -> bool:
    try:
        run([executable.path, "--version"])
        return True
    except (OSError, Failed):
        return False


def _extras(executables: list[Executable]) -> dict[str, bytes]:
    """Completions and man pages, which are the same on every platform."""
    ours = next((executable for executable in executables if runs_here(executable)), None)
    if not ours:
        raise Failed("cannot generate completions and man pages: no executable runs on this machine")
    files = {}
    for shell, file in SHELLS.items():
        files[f"completions/{file}"] = run([ours.path, "completions", shell]).encode()
    with tempfile.TemporaryDirectory() as folder:
        run([ours.path, "man", "--dir", folder])
        for page in sorted(Path(folder).iterdir()):
            files[f"man/{page.name}"] = page.read_bytes()
    return files


def _archive(executable: Executable, extras: dict[str, bytes], to: Path) -> Path:
    top = f"{PROGRAM}-{executable.target.triple}"
    files = {executable.target.executable: executable.path.read_bytes()}
    files |= {paper: (ROOT / paper).read_bytes() for paper in PAPERS} | extras
    path = to / name(executable)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for file, data in files.items():
                entry = zipfile.ZipInfo(f"{top}/{file}", (2020, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)
        return path
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for file, data in files.items():
            entry = tarfile.TarInfo(f"{top}/{file}")
            entry.size = len(data)
            entry.mode = 0o755 if file == executable.target.executable else 0o644
            archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(gzip.compress(packed.getvalue(), 6, mtime=0))
    return path


def trial(archives: list[Path], executable: Executable, folder: Path) -> list[Trial]:
    """Unpacks the archive as `cargo binstall` would, according to Cargo.toml, and runs the executable."""
    config = agent.write_config(folder)
    path = next(path for path in archives if path.name == name(executable))
    place, inside = _binstall(executable)
    if place != address(path.name):
        raise Failed(f"cargo binstall would download {place}, but the release has {path.name}")
    started = time.monotonic()
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    seconds = time.monotonic() - started
    program = folder / inside
    home = agent.environment(folder / "home")
    answer = agent.answer_seconds([program, "--config", config], env=home)
    note = "static" if Elf(program).is_static else f"glibc {'.'.join(map(str, Elf(program).glibc()))}"
    command = f"tar -xzf {path.name}"
    return [Trial("archive", command, path.stat().st_size, seconds, answer, note)]


def _binstall(executable: Executable) -> tuple[str, str]:
    """The URL of the archive and the path of the executable in it, as `cargo binstall` computes them."""
    said = MANIFEST["package"]["metadata"]["binstall"]
    said = {**said, **said.get("overrides", {}).get(executable.target.triple, {})}
    windows = executable.target.os == "win32"
    words = {
        "repo": REPOSITORY,
        "version": VERSION,
        "target": executable.target.triple,
        "archive-suffix": {"tgz": ".tar.gz", "zip": ".zip"}[said["pkg-fmt"]],
        "bin": PROGRAM,
        "binary-ext": ".exe" if windows else "",
    }
    texts = [said["pkg-url"], said["bin-dir"]]
    for word, value in words.items():
        texts = [text.replace(f"{{ {word} }}", value) for text in texts]
    return texts[0], texts[1]
