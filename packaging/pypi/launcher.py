"""Runs the executable installed with this package."""

import os
import subprocess
import sys
import sysconfig


def main():
    name = "mcp-workbench" + (".exe" if os.name == "nt" else "")
    folders = [os.path.dirname(os.path.abspath(sys.argv[0])), sysconfig.get_path("scripts")]
    for folder in folders:
        program = os.path.join(folder, name)
        if os.path.isfile(program):
            break
    else:
        sys.exit(f"error: {name} not found in {' or '.join(folders)}; reinstall the package")
    command = [program, *sys.argv[1:]]
    if os.name == "nt":
        sys.exit(subprocess.call(command))
    os.execv(program, command)


if __name__ == "__main__":
    main()
