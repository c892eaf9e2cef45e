"""Reads the requirements of a Linux executable."""

import struct
from pathlib import Path

MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
INTERPRETER = 3
DYNAMIC = 2
LOAD = 1
STRINGS, NEEDS, NEEDS_COUNT = 5, 0x6FFFFFFE, 0x6FFFFFFF


class Elf:
    """A 64-bit little-endian ELF file."""

    def __init__(self, path: Path):
        self.data = path.read_bytes()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is not an executable for 64-bit Linux")
        self.machine = MACHINES[self._read("<H", 18)[0]]
        start = self._read("<Q", 32)[0]
        size, count = self._read("<HH", 54)
        # type, flags, offset, address, physical address, file size, …
        self.segments = [self._read("<IIQQQQ", start + size * index) for index in range(count)]

    def _read(self, layout: str, at: int) -> tuple:
        return struct.unpack_from(layout, self.data, at)

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _offset(self, address: int) -> int:
        for kind, _, offset, start, _, length in self.segments:
            if kind == LOAD and start <= address < start + length:
                return offset + address - start
        raise ValueError(f"no segment contains address {address:#x}")

    @property
    def is_static(self) -> bool:
        return not any(segment[0] == INTERPRETER for segment in self.segments)

    @property
    def triple(self) -> str:
        return f"{self.machine}-unknown-linux-{'musl' if self.is_static else 'gnu'}"

    def glibc(self) -> tuple[int, int]:
        """The oldest glibc version with all required symbol versions."""
        wanted = [name for name in self._versions() if name.startswith("GLIBC_2")]
        return max(tuple(map(int, name[6:].split(".")[:2])) for name in wanted)

    def _versions(self) -> list[str]:
        dynamic = next(segment for segment in self.segments if segment[0] == DYNAMIC)
        entries = {}
        for at in range(dynamic[2], dynamic[2] + dynamic[5], 16):
            tag, value = self._read("<QQ", at)
            entries.setdefault(tag, value)
        strings = self._offset(entries[STRINGS])
        found = []
        at = self._offset(entries[NEEDS])
        for _ in range(entries[NEEDS_COUNT]):
            # Elf64_Verneed: version, count, file, first symbol version, next library.
            _, count, _, first, following = self._read("<HHIII", at)
            version = at + first
            for _ in range(count):
                _, _, _, name, further = self._read("<IHHII", version)
                found.append(self._text(strings + name))
                version += further
            at += following
        return found
