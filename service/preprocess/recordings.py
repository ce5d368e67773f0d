"""Reads the headers of recordings, WAV and FLAC, without a decoder.

So the daemon can check an upload, while decoders see untrusted bytes only in a child.
Sources: RIFF (Microsoft, 1994) for WAV; RFC 9639 for FLAC.
"""

from __future__ import annotations

import re
import struct

from msgspec import Struct

from service.preprocess.kind import Unreadable

WAV, FLAC = "audio/wav", "audio/flac"
PCM, FLOAT, A_LAW, MU_LAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
BITS = {PCM: (8, 16, 24, 32), FLOAT: (32, 64), A_LAW: (8,), MU_LAW: (8,)}
"""Supported bits per sample, by coding."""
LEAST_RATE, MOST_RATE = 1_000, 384_000
MAX_CHUNKS = 1_000
STREAMED_BYTES = 0x7FFFF000
"""The least length in the header of a WAV that was written to a pipe, before its end was known.

SoX writes this one, arecord and ffmpeg larger ones. It ends with the file, which is never as long.
"""
LAST_FRAME_BYTES = 2**18
"""The last frame of a FLAC is assumed to begin within this many bytes of the end."""
MAX_FRAMES_TRIED = 8
MAX_SYNC_CODES = 1_000
"""Maximum sync codes checked for a frame; one occurs by chance in 32,000 bytes."""
WHOLE = "send the whole file"
_SYNC = re.compile(rb"\xff[\xf8\xf9]")
_CUT = f"it is cut short; {WHOLE}"


class AudioHeader(Struct, frozen=True):
    """What the header states. rate: in Hz. frames: samples of each channel."""

    media_type: str
    rate: int
    channels: int
    frames: int


def read_header(data: bytes) -> AudioHeader:
    """Raises Unreadable if it is not WAV or FLAC, or if it is empty or truncated."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        header = _wav(data)
    elif data[:4] == b"fLaC":
        header = _flac(data)
    else:
        raise Unreadable("it is no WAV or FLAC; convert it, or send another")
    if not LEAST_RATE <= header.rate <= MOST_RATE:
        limits = f"from {LEAST_RATE} to {MOST_RATE}"
        raise Unreadable(f"its sample rate is {header.rate} Hz; send one {limits}")
    if header.frames == 0:
        raise Unreadable("it is empty: its header tells of no samples; send a recording")
    return header


def _wav(data: bytes) -> AudioHeader:
    shape: tuple[int, int, int] | None = None
    at = 12
    for _ in range(MAX_CHUNKS):
        if at + 8 > len(data):
            raise Unreadable(_CUT)
        name, size = struct.unpack_from("<4sI", data, at)
        at += 8
        if name == b"data":
            if shape is None:
                raise Unreadable("its format is missing before its samples; write it anew")
            rate, channels, frame_bytes = shape
            if size >= STREAMED_BYTES:
                size = len(data) - at
            if at + size > len(data):
                there = len(data) - at
                raise Unreadable(f"its header tells of {size} bytes, there are {there}; {WHOLE}")
            return AudioHeader(WAV, rate, channels, size // frame_bytes)
        if name == b"fmt ":
            shape = _wav_format(data[at : at + size])
        at += size + size % 2
    raise Unreadable(f"it has no samples within its first {MAX_CHUNKS} chunks; write it anew")


def _wav_format(chunk: bytes) -> tuple[int, int, int]:
    """Rate, channels, and bytes per sample of all channels."""
    if len(chunk) < 16:
        raise Unreadable(_CUT)
    coding, channels, rate, _, frame_bytes, bits = struct.unpack_from("<HHIIHH", chunk)
    if coding == EXTENSIBLE and len(chunk) >= 26:
        (coding,) = struct.unpack_from("<H", chunk, 24)
    if bits not in BITS.get(coding, ()):
        what = f"coding {coding} of {bits} bits"
        raise Unreadable(f"it has {what}; send PCM of 8 to 32 bits, floats, A-law or mu-law")
    if channels == 0 or frame_bytes != channels * bits // 8:
        size = f"{channels} channels of {bits} bits in {frame_bytes} bytes"
        raise Unreadable(f"its header tells of {size}; write it anew")
    return rate, channels, frame_bytes


def _flac(data: bytes) -> AudioHeader:
    if len(data) < 42 or data[4] & 0x7F != 0:
        raise Unreadable(_CUT)
    packed = int.from_bytes(data[18:26], "big")
    rate, channels = packed >> 44, (packed >> 41 & 7) + 1
    frames = packed & (1 << 36) - 1
    at, is_last = 4, False
    while not is_last:
        if at + 4 > len(data):
            raise Unreadable(_CUT)
        is_last = data[at] >= 0x80
        at += 4 + int.from_bytes(data[at + 1 : at + 4], "big")
    if frames == 0:
        raise Unreadable("its header does not tell its length; write it anew, or send WAV")
    if _flac_end(data, at, int.from_bytes(data[8:10], "big")) != frames:
        raise Unreadable(f"it ends before the {frames} samples of its header; {WHOLE}")
    return AudioHeader(FLAC, rate, channels, frames)


def _flac_end(data: bytes, first: int, block_size: int) -> int | None:
    """The end of the last frame, in samples; None if no frame ends with the file.

    first: offset of the first frame. block_size: of all frames but the last, if it does not vary.
    """
    end = len(data) - 128 if data[-128:-125] == b"TAG" else len(data)
    least = max(first, end - LAST_FRAME_BYTES)
    begins = [least + match.start() for match in _SYNC.finditer(data[least:end])]
    frames = []
    for at in reversed(begins[-MAX_SYNC_CODES:]):
        ends = _flac_frame(data[at : at + 16], block_size)
        if ends is not None:
            frames.append((at, ends))
    for at, ends in frames[:MAX_FRAMES_TRIED]:
        if _crc(data[at : end - 2], bits=16) == int.from_bytes(data[end - 2 : end], "big"):
            return ends
    return None


def _flac_frame(head: bytes, fixed_size: int) -> int | None:
    """The end of a frame, in samples; None if this is not a frame's header (RFC 9639, 9.1)."""
    if len(head) < 6:
        return None
    number, used = _coded_number(head[4:])
    size_code, rate_code = head[2] >> 4, head[2] & 15
    if number is None or size_code == 0:
        return None
    at = 4 + used
    extra = {6: 1, 7: 2}.get(size_code, 0)
    size = int.from_bytes(head[at : at + extra], "big") + 1
    at += extra + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if at >= len(head) or _crc(head[:at], bits=8) != head[at]:
        return None
    if size_code == 1:
        size = 192
    elif size_code < 6:
        size = 576 << size_code - 2
    elif size_code > 7:
        size = 256 << size_code - 8
    varies = head[1] & 1
    return (number if varies else number * fixed_size) + size


def _coded_number(coded: bytes) -> tuple[int | None, int]:
    """The number that begins here and its length in bytes, coded like UTF-8, up to 36 bits."""
    first = coded[0]
    if first < 0x80:
        return first, 1
    more = 0
    while more < 7 and first >> 6 - more & 1:
        more += 1
    if not 1 <= more <= 6 or len(coded) <= more:
        return None, 0
    number = first & (1 << 6 - more) - 1
    for byte in coded[1 : more + 1]:
        number = number << 6 | byte & 0x3F
    return number, more + 1


def _crc(data: bytes, *, bits: int) -> int:
    """FLAC's CRC: polynomials x^8 + x^2 + x + 1, and x^16 + x^15 + x^2 + 1."""
    table, high = _TABLES[bits], bits - 8
    value = 0
    for byte in data:
        value = (value << 8 ^ table[value >> high ^ byte]) & (1 << bits) - 1
    return value


def _table(polynomial: int, bits: int) -> list[int]:
    table = []
    for byte in range(256):
        value = byte << bits - 8
        for _ in range(8):
            value = value << 1 ^ (polynomial if value >> bits - 1 else 0)
            value &= (1 << bits) - 1
        table.append(value)
    return table


_TABLES = {8: _table(0x07, 8), 16: _table(0x8005, 16)}
