"""The pictures of artifacts in the form that a model takes: few, small, and what they claim to be. Knows no provider.

1. The content decides: PNG, JPEG, GIF and WebP, as `picture_size` reads them. SVG and HTML are never pictures.
2. Nothing is decoded before its header has named its size, and that is at most `MAX_PIXELS`. Nor is what a few bytes
   make slow, such as a JPEG of a thousand scans; and an answer's pictures take `_MOST_SECONDS`.
3. With Pillow (the extra ``pictures``) a picture is decoded, in a thread, and scaled down to `LONGEST_SIDE`. So what a
   provider gets, it can read. Without Pillow a picture goes as it is, if it is small and its parts are complete.
4. An answer has at most `MAX_PICTURES`, each once. Of every picture that is left out, a note says why.
"""

from __future__ import annotations

import base64
import io
import math
import struct
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from callgate.artifacts import Artifact
from callgate.cut import cut_middle
from callgate.extras import how_to_install

__all__ = ["MAX_PICTURES", "Picture", "PictureReference", "Pictures", "picture_size", "pictures_of"]

MAX_PICTURES = 4
"""Pictures of one answer."""
LONGEST_SIDE = 1_568
"""Pixels. A larger picture costs time and shows a model no more
(https://platform.claude.com/docs/en/build-with-claude/vision#evaluate-image-size)."""
MAX_BYTES = 1_000_000
"""Bytes of a picture as it is sent. Anthropic takes 5 MB of base64, and a request of 32 MB."""
MAX_PIXELS = 25_000_000
"""Of a picture that is decoded: 100 MB of memory."""
_MOST_SIDE = 8_000
"""Anthropic refuses a request with a picture that has more pixels on a side."""
_MOST_NOTES = 8
_MOST_SEGMENTS = 1_000
"""Of a JPEG before its first scan: each has up to 64 KB."""
_MOST_WORK = 100_000
"""Of a picture, as `_work` counts it: some seconds, at 25 million pixels."""
_MOST_SECONDS = 5.0
"""After which no other picture of an answer is begun."""
_AT_ONCE = 2
"""Pictures that are decoded at the same time, of all runs."""
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_START_OF_FRAME = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The JPEG markers of segments that name the size (ITU T.81, table B.1)."""
_MOST_TOKENS = 5_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureReference:
    """A picture without its bytes, as conversations and transcripts keep it.

    Attributes:
        handle: of the artifact.
        name: of the artifact.
        media_type: of the artifact.
        sha256: of the artifact's bytes.
        width: in pixels, as the model gets the picture.
        height: as `width`.
    """

    handle: str
    name: str
    media_type: str
    sha256: str
    width: int
    height: int

    @property
    def tokens(self) -> int:
        """Upper bound of the tokens that the picture costs.

        Anthropic: width × height / 750 (https://platform.claude.com/docs/en/build-with-claude/vision). OpenAI: 85, and
        170 for each tile of 512 × 512 pixels (https://platform.openai.com/docs/guides/images-vision#calculating-costs).
        """
        tiles = math.ceil(self.width / 512) * math.ceil(self.height / 512)
        return max(0, min(max(math.ceil(self.width * self.height / 750), 85 + 170 * tiles), _MOST_TOKENS))


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture for a model.

    Attributes:
        reference: says which picture it is.
        media_type: of `data`.
        data: the picture, scaled down if need be.
    """

    reference: PictureReference
    media_type: str
    data: bytes = field(repr=False)

    @cached_property
    def base64(self) -> str:
        return base64.b64encode(self.data).decode()

    @property
    def data_uri(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of an answer.

    Attributes:
        shown: for the model, in order.
        notes: for each of the others, why it is not shown.
    """

    shown: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()

    def told(self, text: str) -> str:
        """The text of the answer, with the notes."""
        return "\n".join((text, *(f"Note: {note}." for note in self.notes)))


class _NotShown(Exception):
    """Why a picture is not shown."""


_decoding: RunVar[anyio.CapacityLimiter] = RunVar("callgate_decoding")


async def pictures_of(artifacts: Iterable[Artifact], most: int = MAX_PICTURES) -> Pictures:
    """The pictures among these artifacts.

    Args:
        artifacts: in the order in which the model reads of them.
        most: number of pictures.
    """
    given = [each for each in artifacts if _claims(each)]
    if not given:
        return Pictures()
    try:
        limiter = _decoding.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        _decoding.set(limiter)
    return await anyio.to_thread.run_sync(_made, given, most, limiter=limiter, abandon_on_cancel=True)


def picture_size(data: bytes) -> tuple[str, int, int] | None:
    """The media type, the width and the height that the header of a picture names; None if it is none that models take.

    Nothing is decoded.
    """
    found: tuple[str, int, int] | None = None
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            found = "image/png", *struct.unpack_from(">II", data, 16)
        elif data.startswith((b"GIF87a", b"GIF89a")):
            found = "image/gif", *struct.unpack_from("<HH", data, 6)
        elif data.startswith(b"\xff\xd8\xff"):
            found = _jpeg_size(data)
        elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            found = _webp_size(data)
    except struct.error:
        return None
    return found if found is not None and found[1] > 0 and found[2] > 0 else None


def _jpeg_size(data: bytes) -> tuple[str, int, int] | None:
    place, found = 2, None
    for _ in range(_MOST_SEGMENTS):
        if place + 4 > len(data):
            return found
        mark, kind, length = struct.unpack_from(">BBH", data, place)
        if mark != 0xFF or kind in (0xD9, 0xDA):
            return found
        if kind == 0xFF:  # fill
            place += 1
            continue
        if kind in _START_OF_FRAME:
            height, width = struct.unpack_from(">HH", data, place + 5)
            found = "image/jpeg", width, height
        place += 2 + length
    return None


def _webp_size(data: bytes) -> tuple[str, int, int] | None:
    """See https://developers.google.com/speed/webp/docs/riff_container."""
    match data[12:16]:
        case b"VP8X" if len(data) >= 30:
            low, high = data[24:27], data[27:30]
            return "image/webp", 1 + int.from_bytes(low, "little"), 1 + int.from_bytes(high, "little")
        case b"VP8L" if data[20:21] == b"\x2f":
            (bits,) = struct.unpack_from("<I", data, 21)
            return "image/webp", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, 26)
            return "image/webp", width & 0x3FFF, height & 0x3FFF
    return None


def _claims(artifact: Artifact) -> bool:
    return artifact.media_type.startswith("image/") or picture_size(artifact.data) is not None


def _made(artifacts: list[Artifact], most: int) -> Pictures:
    shown: list[Picture] = []
    notes: list[str] = []
    seen: set[str] = set()
    beyond = late = 0
    end = time.monotonic() + _MOST_SECONDS
    for artifact in artifacts:
        if artifact.sha256 in seen:
            continue
        seen.add(artifact.sha256)
        if len(shown) >= most and picture_size(artifact.data) is not None:
            beyond += 1
            continue
        if time.monotonic() > end:
            late += 1
            continue
        try:
            shown.append(_picture(artifact))
        except _NotShown as why:
            notes.append(f"{cut_middle(artifact.name, 100)} is not shown to you: {why}")
    more = len(notes) - _MOST_NOTES
    notes = [*notes[:_MOST_NOTES], *([f"{more} more pictures are not shown to you"] if more > 0 else [])]
    if beyond:
        notes.append(f"{beyond} more pictures are not shown to you: an answer shows {most}")
    if late:
        notes.append(f"{late} more pictures are not shown to you: the others took {_MOST_SECONDS:g} s")
    return Pictures(tuple(shown), tuple(notes))


def _picture(artifact: Artifact) -> Picture:
    """The artifact as a picture for a model. Raises `_NotShown`."""
    found = picture_size(artifact.data)
    if found is None:
        raise _NotShown("only PNG, JPEG, GIF and WebP are, and this is none of them")
    kind, width, height = found
    if width * height > MAX_PIXELS:
        raise _NotShown(f"it has {width:,} × {height:,} pixels, and {MAX_PIXELS:,} are the most")
    try:
        pillow = import_module("PIL.Image")
    except ImportError:
        data = _as_it_is(artifact.data, kind, width, height)
    else:
        if _work(artifact.data, kind) > _MOST_WORK:
            raise _NotShown("it is made of so many parts that it would take too long")
        try:
            kind, data, width, height = _decoded(pillow, artifact.data, kind)
        except _NotShown:
            raise
        except Exception:  # Pillow raises many kinds
            raise _NotShown("it cannot be decoded") from None
    reference = PictureReference(
        handle=artifact.handle,
        name=artifact.name,
        media_type=artifact.media_type,
        sha256=artifact.sha256,
        width=width,
        height=height,
    )
    return Picture(reference=reference, media_type=kind, data=data)


def _as_it_is(data: bytes, kind: str, width: int, height: int) -> bytes:
    """The picture's own bytes. Raises `_NotShown` if a provider would refuse them."""
    larger = f"Pillow, which would scale it down, is not installed: {how_to_install('pictures')}"
    if len(data) > MAX_BYTES:
        raise _NotShown(f"it has {len(data):,} bytes, and {MAX_BYTES:,} are the most. {larger}")
    if max(width, height) > _MOST_SIDE:
        raise _NotShown(f"it has {width:,} × {height:,} pixels, and a side may have {_MOST_SIDE:,}. {larger}")
    if not _is_complete(data, kind):
        raise _NotShown("it is damaged")
    return data


def _is_complete(data: bytes, kind: str) -> bool:
    """Whether the parts of a picture are there to its end."""
    match kind:
        case "image/png":
            return _has_png_chunks(data)
        case "image/jpeg":
            return data.rstrip(b"\0").endswith(b"\xff\xd9")
        case "image/gif":
            return data.rstrip(b"\0").endswith(b"\x3b")
    return 8 + int.from_bytes(data[4:8], "little") <= len(data)


def _has_png_chunks(data: bytes) -> bool:
    """Whether the chunks of a PNG have right checksums, up to its end."""
    place, kinds = 8, set()
    while place + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        end = place + 8 + length
        if end + 4 > len(data) or struct.unpack_from(">I", data, end)[0] != zlib.crc32(data[place + 4 : end]):
            return False
        kinds.add(kind := data[place + 4 : place + 8])
        if kind == b"IEND":
            return b"IDAT" in kinds
        place = end + 4
    return False


def _work(data: bytes, kind: str) -> int:
    """What decoding costs beside its pixels, up to `_MOST_WORK`: the parts that Pillow looks at one by one.

    A scan of a JPEG may have 50 bytes, and goes over all pixels; a chunk of a PNG may be empty; Pillow 11 joins the
    parts of a GIF's comment one by one.
    """
    work, place = 0, 8
    if kind == "image/jpeg":
        return data.count(b"\xff\xda") * (_MOST_WORK // 50)
    if kind == "image/png":
        while place + 12 <= len(data) and work <= _MOST_WORK:
            place += 12 + int.from_bytes(data[place : place + 4])
            work += 5
    if kind == "image/gif":
        place = 13 + _colours(data[10])
        while place + 11 < len(data) and data[place] in b"!," and work <= _MOST_WORK:
            comment = data[place : place + 2] == b"!\xfe"
            place += 2 if data[place] == 0x21 else 11 + _colours(data[place + 9])
            while place < len(data) and data[place] and work <= _MOST_WORK:
                place += 1 + data[place]
                work += 50 if comment else 1
            place += 1
        if data[place : place + 1] != b";":
            work += len(data) - place  # Pillow looks for the next part byte by byte
    return work


def _colours(flags: int) -> int:
    """Bytes of a GIF's table of colours."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _decoded(pillow: Any, data: bytes, kind: str) -> tuple[str, bytes, int, int]:
    """The media type, the bytes and the size of the picture as it is sent; the same bytes if they can be."""
    with pillow.open(io.BytesIO(data), formats=[_FORMATS[kind]]) as image:
        if image.width * image.height > MAX_PIXELS:  # Pillow reads more of the file than its header
            raise _NotShown(f"it has more than {MAX_PIXELS:,} pixels")
        moves = getattr(image, "is_animated", False) and kind != "image/png"
        large = max(image.size) > LONGEST_SIDE
        if large:
            image.draft(None, (LONGEST_SIDE, LONGEST_SIDE))  # a JPEG is decoded at a part of its size
        image.load()
        if not (large or moves or len(data) > MAX_BYTES) and _is_complete(data, kind):
            return kind, data, *image.size
        clear = "A" in image.mode or "transparency" in image.info
        photograph = kind in ("image/jpeg", "image/webp") or len(data) > image.width * image.height
        drawn = image.convert("RGBA" if clear else "RGB")
        drawn.info.pop("comment", None)  # which would be written again, and may be longer than a JPEG takes
    side = LONGEST_SIDE
    while True:
        drawn.thumbnail((side, side))
        for made, encoded in _encodings(pillow, drawn, photograph=photograph):
            if len(encoded) <= MAX_BYTES:
                return made, encoded, *drawn.size
        side //= 2


def _encodings(pillow: Any, image: Any, *, photograph: bool) -> Iterable[tuple[str, bytes]]:
    """The picture as PNG, unless it is a photograph, and as JPEG, on white."""
    if not photograph:
        yield "image/png", _saved(image, "PNG")
    if image.mode == "RGBA":
        ground = pillow.new("RGB", image.size, "white")
        ground.paste(image, mask=image.getchannel("A"))
        image = ground
    yield "image/jpeg", _saved(image, "JPEG", quality=85)


def _saved(image: Any, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()
