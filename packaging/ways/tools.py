"""The tools that check and test packages; `scripts/test.sh --setup-packages` installs them."""

import os
import shutil
from pathlib import Path

from ways.project import ROOT, Skipped

ENVIRONMENTS = ROOT / ".test-env"


def python_tool(name: str) -> Path:
    """A program from the pinned PyPI packages."""
    return _tool(ENVIRONMENTS / "packages-python" / "bin", name)


def npm_tool(name: str) -> Path:
    """A program from the pinned npm packages."""
    return _tool(ENVIRONMENTS / "packages-node" / "node_modules" / ".bin", name)


def _tool(folder: Path, name: str) -> Path:
    if (folder / name).exists():
        return folder / name
    raise Skipped(f"{name} is not installed; run `scripts/test.sh --setup-packages`")


def system_tool(name: str) -> Path:
    """A program from the PATH."""
    found = shutil.which(name, path=os.environ.get("PATH"))
    if not found:
        raise Skipped(f"{name} is not installed")
    return Path(found)
