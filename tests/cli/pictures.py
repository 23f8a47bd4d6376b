"""PNG files, written without a library."""

import struct
import zlib


def _file(width: int, height: int, colour_type: int, rows: bytes, *more: tuple[bytes, bytes]) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    chunks = ((b"IHDR", head), *more, (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks)


def png(pixels: list[list[tuple[int, int, int]]]) -> bytes:
    """Rows of RGB values."""
    rows = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in pixels)
    return _file(len(pixels[0]), len(pixels), 2, rows)


def palette_png(numbers: list[list[int]]) -> bytes:
    """Rows of indices into a palette in which no colour is its own number."""
    rows = b"".join(b"\0" + bytes(row) for row in numbers)
    palette = bytes(value for i in range(256) for value in (255 - i, (i * 7) % 256, (i * 13) % 256))
    return _file(len(numbers[0]), len(numbers), 3, rows, (b"PLTE", palette))
