"""Gives Wine 10's C runtime the six functions that numpy needs and Wine only names.

    python3 mend_wine.py ucrtbase.dll

Wine's own code for a function that it lacks ends the process; the code here replaces it.
A complex of doubles comes by its address in rcx, one of floats in rcx itself.
"""

import struct
import sys
from pathlib import Path

REAL, IMAGINARY = bytes.fromhex("f20f1001 c3"), bytes.fromhex("f20f104108 c3")
"""movsd xmm0, [rcx]; ret, and [rcx + 8]."""
REAL_OF_FLOATS = bytes.fromhex("660f6ec1 c3")
"""movd xmm0, ecx; ret"""
IMAGINARY_OF_FLOATS = bytes.fromhex("48c1e920") + REAL_OF_FLOATS
"""shr rcx, 32, before the same."""
CODE = {
    "creal": REAL,
    "creall": REAL,
    "crealf": REAL_OF_FLOATS,
    "cimag": IMAGINARY,
    "cimagl": IMAGINARY,
    "cimagf": IMAGINARY_OF_FLOATS,
}


def word(content: bytes, offset: int, form: str = "<I") -> int:
    return int(struct.unpack_from(form, content, offset)[0])


def exports(content: bytes) -> dict[str, int]:
    """Name of each export → where its code is in the file (Microsoft's PE format, PE32+)."""
    header = word(content, 0x3C)
    optional, sections = header + 24, word(content, header + 6, "<H")
    table = optional + word(content, header + 20, "<H")

    def at(address: int) -> int:
        for section in range(table, table + 40 * sections, 40):
            size, start, _, raw = struct.unpack_from("<4I", content, section + 8)
            if start <= address < start + size:
                return raw + address - start
        raise SystemExit(f"no section has the address {address:#x}")

    directory = at(word(content, optional + 112))
    count, functions, names, ordinals = struct.unpack_from("<4I", content, directory + 24)
    result = {}
    for i in range(count):
        start = at(word(content, at(names) + 4 * i))
        name = content[start : content.index(b"\0", start)].decode("ascii")
        ordinal = word(content, at(ordinals) + 2 * i, "<H")
        result[name] = word(content, at(functions) + 4 * ordinal)
    return {name: at(result[name]) for name in CODE}


library = Path(sys.argv[1])
mended = bytearray(library.read_bytes())
for name, offset in exports(mended).items():
    mended[offset : offset + len(CODE[name])] = CODE[name]
library.write_bytes(mended)
