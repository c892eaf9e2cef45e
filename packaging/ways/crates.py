"""crates.io: a package of every workspace crate."""

import tarfile
import tomllib
from pathlib import Path

from ways.project import PROGRAM, ROOT, VERSION, Executable, Failed, Trial, run

# The registry's size limit.
MOST_BYTES = 10 * 1024 * 1024


def make(_: list[Executable], to: Path) -> list[Path]:
    """Packages every crate from the working tree, including uncommitted changes."""
    words = ["cargo", "package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"]
    run([*words, "--target-dir", to / "target"], cwd=ROOT)
    packages = sorted((to / "target" / "package").glob(f"*-{VERSION}.crate"))
    return [path.rename(to / path.name) for path in packages]


def trial(packages: list[Path], _: Executable, folder: Path) -> list[Trial]:
    """Checks the packages' metadata and files. Doesn't build them, because that takes as long as a release build."""
    members = {PROGRAM, *(f"{PROGRAM}-{path.name}" for path in (ROOT / "crates").iterdir())}
    names = {path.name.removesuffix(f"-{VERSION}.crate") for path in packages}
    if names != members:
        raise Failed(f"packages {sorted(names)} differ from crates {sorted(members)}")
    folder.mkdir(parents=True)
    for path in packages:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        _check(path, folder / path.name.removesuffix(".crate"))
    size = sum(path.stat().st_size for path in packages)
    note = "packaged, not built"
    return [Trial("crates.io", f"cargo install {PROGRAM}", size, note=note)]


def _check(path: Path, folder: Path) -> None:
    if path.stat().st_size > MOST_BYTES:
        raise Failed(f"{path.name} is larger than {MOST_BYTES} bytes")
    package = tomllib.loads((folder / "Cargo.toml").read_text())["package"]
    for key in ("description", "license", "repository", "rust-version"):
        if not package.get(key):
            raise Failed(f"{path.name} has no `{key}`")
    # The package must contain every file that the code includes.
    for source in folder.rglob("*.rs"):
        for line in source.read_text().splitlines():
            for macro in ("include_str!(\"", "include_bytes!(\""):
                if macro in line and not line.strip().startswith("//"):
                    file = line.split(macro)[1].split('"')[0]
                    if not (source.parent / file).exists():
                        raise Failed(f"{path.name} lacks {file}, which {source.name} includes")
