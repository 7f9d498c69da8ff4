"""Pictures as a model takes them: few, small, and what they claim to be; or a line that says why not."""

from __future__ import annotations

import importlib.util
import io
import struct
import sys
import threading
import zlib
from typing import Any

import pytest

from callgate import Artifact
from callgate.runtime.pictures import (
    LONGEST_SIDE,
    MAX_BYTES,
    MAX_PICTURES,
    MAX_PIXELS,
    PictureReference,
    Pictures,
    picture_size,
    pictures_of,
)
from runtime.drawn import GIF, HTML, JPEG, SVG, WEBP, artifact, png, png_header

pytestmark = pytest.mark.anyio

HAS_PILLOW = importlib.util.find_spec("PIL") is not None


@pytest.fixture(params=["with Pillow", "without Pillow"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Pillow and without."""
    if request.param == "without Pillow":
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
    elif not HAS_PILLOW:
        pytest.skip("Pillow is not installed: pip install callgate[pictures]")


@pytest.fixture
def pillow() -> Any:
    return pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install callgate[pictures]")


@pytest.fixture
def no_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)


def encoded(pillow: Any, form: str, size: tuple[int, int], mode: str = "RGB", **options: Any) -> bytes:
    file = io.BytesIO()
    pillow.effect_noise(size, 60).convert(mode).save(file, form, **options)
    return file.getvalue()


async def only(data: bytes, name: str = "plot.png", media_type: str = "") -> Pictures:
    return await pictures_of([artifact(data, name, media_type)])


# what is a picture


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (png(7, 5), "image/png", (7, 5)),
        (GIF, "image/gif", (1, 1)),
        (JPEG, "image/jpeg", (1, 1)),
        (WEBP, "image/webp", (1, 1)),
    ],
    ids=["PNG", "GIF", "JPEG", "WebP"],
)
@pytest.mark.usefixtures("either")
async def test_small_pictures_of_four_kinds_go_as_they_are(data: bytes, kind: str, size: tuple[int, int]) -> None:
    assert picture_size(data) == (kind, *size)
    (picture,) = (await only(data)).shown
    assert picture.data == data
    assert picture.media_type == kind
    assert (picture.reference.width, picture.reference.height) == size
    assert picture.data_uri.startswith(f"data:{kind};base64,")


def test_sizes_of_all_forms_are_read_from_their_headers(pillow: Any) -> None:
    forms: list[tuple[str, str, dict[str, Any]]] = [
        ("PNG", "RGB", {}), ("GIF", "L", {}), ("JPEG", "RGB", {"progressive": True}), ("JPEG", "L", {}),
        ("WEBP", "RGB", {}), ("WEBP", "RGB", {"lossless": True}), ("WEBP", "RGBA", {"exif": b"Exif\0\0"}),
    ]  # fmt: skip
    for form, mode, options in forms:
        found = picture_size(encoded(pillow, form, (321, 123), mode, **options))
        assert found == (f"image/{form.lower()}", 321, 123), (form, options)


@pytest.mark.parametrize(
    ("data", "name", "media_type"),
    [
        (b"no picture", "a.png", "image/png"),
        (SVG, "a.svg", ""),
        (SVG, "a.png", "image/png"),
        (b"BM" + bytes(60), "a.bmp", ""),
        (b"\x89PNG\r\n\x1a\n", "cut.png", ""),
        (png_header(0, 10), "nothing.png", ""),
        (b"\xff\xd8\xff" + b"\xff" * 100_000, "fill.jpg", ""),
        (b"\xff\xd8" + b"\xff\xe0\x00\x02" * 500_000, "segments.jpg", ""),
        (b"RIFF\xff\xff\xff\xffWEBPVP8X", "a.webp", ""),
    ],
    ids=["text", "SVG", "SVG called PNG", "BMP", "half a header", "no width", "fill bytes", "segments", "half a WebP"],
)
@pytest.mark.usefixtures("either")
async def test_what_claims_to_be_a_picture_and_is_none_is_one_line(data: bytes, name: str, media_type: str) -> None:
    found = await only(data, name, media_type)
    assert found.shown == ()
    (note,) = found.notes
    assert note == f"{name} is not shown to you: only PNG, JPEG, GIF and WebP are, and this is none of them"


@pytest.mark.usefixtures("either")
async def test_other_artifacts_are_neither_pictures_nor_noted() -> None:
    others = [artifact(HTML, "page.html"), artifact(b"a,b\n1,2\n", "out.csv"), artifact(b"PK\x03\x04", "out.xlsx")]
    assert await pictures_of(others) == Pictures()


@pytest.mark.usefixtures("either")
async def test_a_picture_under_the_name_and_type_of_a_text_is_a_picture() -> None:
    (picture,) = (await only(png(), "notes.txt", "text/plain")).shown
    assert picture.media_type == "image/png"
    assert picture.reference.media_type == "text/plain"


# how many


@pytest.mark.usefixtures("either")
async def test_four_pictures_are_shown_each_once_and_the_rest_is_counted() -> None:
    given = [artifact(png(seed=seed), f"{seed}.png") for seed in (1, 1, 2, 3, 4, 5, 6, 6)]
    found = await pictures_of(given)
    assert [each.reference.name for each in found.shown] == ["1.png", "2.png", "3.png", "4.png"]
    assert found.notes == (f"2 more pictures are not shown to you: an answer shows {MAX_PICTURES}",)
    assert found.told("Value: 1").splitlines()[1] == f"Note: {found.notes[0]}."


async def test_notes_are_bounded() -> None:
    found = await pictures_of([artifact(b"%d" % n, f"{n}.png", "image/png") for n in range(32)])
    assert len(found.notes) == 9
    assert found.notes[-1] == "24 more pictures are not shown to you"


# bombs and damage


@pytest.mark.usefixtures("either")
async def test_a_picture_of_100000_by_100000_pixels_is_refused_before_it_is_decoded() -> None:
    bomb = png_header(100_000, 100_000) + b"\0" * 100
    (note,) = (await only(bomb)).notes
    assert "it has 100,000 × 100,000 pixels" in note
    assert f"{MAX_PIXELS:,} are the most" in note


@pytest.mark.usefixtures("either")
async def test_a_zip_bomb_called_png_is_one_line() -> None:
    zeros = zlib.compress(bytes(50_000 * 2_000 * 3), 1)
    chunk = struct.pack(">I", len(zeros)) + b"IDAT" + zeros + struct.pack(">I", zlib.crc32(b"IDAT" + zeros))
    found = await only(png_header(50_000, 2_000) + chunk)
    assert found.shown == ()
    assert len(found.notes) == 1


async def test_a_bomb_within_the_pixels_is_decoded_within_them(pillow: Any) -> None:
    """10 MB of data behind a header of 4 pixels cost nothing: only what the header names is decoded."""
    zeros = zlib.compress(bytes(10 * 1024 * 1024), 9)
    chunk = struct.pack(">I", len(zeros)) + b"IDAT" + zeros + struct.pack(">I", zlib.crc32(b"IDAT" + zeros))
    end = png()[-12:]
    (picture,) = (await only(png_header(2, 2) + chunk + end)).shown
    assert (picture.reference.width, picture.reference.height) == (2, 2)


def _many_scans(pillow: Any) -> bytes:
    whole = encoded(pillow, "JPEG", (4_000, 4_000), "L", progressive=True)
    start, end = whole.rfind(b"\xff\xda"), whole.rfind(b"\xff\xd9")
    return whole[:end] + b"\xff\xda\x00\x08\x01\x01\x00\x3f\x3f\x00\x00" * 1_000 + whole[start:]


def _many_segments(pillow: Any) -> bytes:
    return JPEG.replace(b"\xff\xda", b"\xff\xfe\x00\x02" * 200_000 + b"\xff\xda")


def _many_chunks(pillow: Any) -> bytes:
    empty = struct.pack(">I", 0) + b"abCd" + struct.pack(">I", zlib.crc32(b"abCd"))
    return png_header(3, 2) + empty * 200_000 + png()[33:]


def _long_comment(pillow: Any) -> bytes:
    start = 13 + 6  # behind the header and the colours of `GIF`
    return GIF[:start] + b"!\xfe" + b"\xffa" * 128 * 100_000 + b"\0" + GIF[start:]


@pytest.mark.parametrize("made", [_many_scans, _many_segments, _many_chunks, _long_comment])
async def test_a_small_picture_that_takes_minutes_is_one_line(pillow: Any, made: Any) -> None:
    """116 KB of scans take 25 seconds, 32 MB of them take hours, and all other pictures of the process wait."""
    found = await only(made(pillow))
    assert found.shown == ()
    assert len(found.notes) == 1
    assert found.notes[0].endswith(("it would take too long", "this is none of them"))


async def test_pictures_that_take_long_together_are_counted(pillow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgate.runtime.pictures._MOST_SECONDS", -1.0)
    found = await pictures_of([artifact(png(seed=seed)) for seed in (1, 2)])
    assert found.shown == ()
    assert found.notes[0].startswith("2 more pictures are not shown to you: the others took")


async def test_the_comment_of_a_picture_is_not_sent(pillow: Any) -> None:
    (picture,) = (await only(encoded(pillow, "GIF", (2_000, 1_000), "L", comment=b"do as I say" * 9_000))).shown
    assert b"do as I say" not in picture.data


@pytest.mark.parametrize("data", [png(40, 40)[:70], png(40, 40)[:60] + b"!" + png(40, 40)[61:], JPEG[:-12]])
@pytest.mark.usefixtures("either")
async def test_a_damaged_picture_is_one_line(data: bytes) -> None:
    found = await only(data)
    assert found.shown == ()
    assert found.notes[0].endswith(("it cannot be decoded", "it is damaged"))


@pytest.mark.parametrize("data", [GIF[:-5], WEBP[:-5]])
async def test_a_picture_that_breaks_off_is_one_line_without_pillow(no_pillow: None, data: bytes) -> None:
    assert (await only(data)).notes == ("plot.png is not shown to you: it is damaged",)


async def test_a_picture_without_its_end_is_made_anew(pillow: Any) -> None:
    """Pillow shows it, and a provider may not."""
    (picture,) = (await only(png(40, 40)[:-12])).shown
    assert picture.data.endswith(b"IEND\xaeB`\x82")


async def test_data_that_only_pillow_can_judge_is_judged_by_it(pillow: Any) -> None:
    """A PNG whose chunks are right, with data that is no picture: a provider would refuse the whole request."""
    junk = b"no zlib stream"
    chunk = struct.pack(">I", len(junk)) + b"IDAT" + junk + struct.pack(">I", zlib.crc32(b"IDAT" + junk))
    (note,) = (await only(png_header(5, 5) + chunk + png()[-12:])).notes
    assert note.endswith("it cannot be decoded")


# size


async def test_a_large_picture_is_scaled_down(pillow: Any) -> None:
    given = artifact(png(4_000, 1_000), "wide.png")
    (picture,) = (await pictures_of([given])).shown
    reference = picture.reference
    assert (reference.width, reference.height) == (LONGEST_SIDE, LONGEST_SIDE // 4)
    assert picture_size(picture.data) == (picture.media_type, reference.width, reference.height)
    assert reference.sha256 == given.sha256


@pytest.mark.parametrize(("form", "kind"), [("PNG", "image/jpeg"), ("JPEG", "image/jpeg"), ("WEBP", "image/jpeg")])
async def test_noise_that_no_png_holds_in_a_megabyte_goes_as_jpeg(pillow: Any, form: str, kind: str) -> None:
    (picture,) = (await only(encoded(pillow, form, (3_000, 2_000), quality=95))).shown
    assert len(picture.data) <= MAX_BYTES
    assert picture.media_type == kind
    assert picture_size(picture.data) == (kind, picture.reference.width, picture.reference.height)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
async def test_every_mode_of_a_png_can_be_scaled(pillow: Any, mode: str) -> None:
    file = io.BytesIO()
    pillow.new(mode, (2_000, 1_600)).save(file, "PNG")
    (picture,) = (await only(file.getvalue())).shown
    assert picture.reference.width == LONGEST_SIDE


async def test_what_is_clear_becomes_white_in_a_jpeg(pillow: Any) -> None:
    file = io.BytesIO()
    noise = pillow.effect_noise((1_568, 1_568), 90)
    clear = pillow.merge("RGBA", (noise, noise.rotate(90), noise.rotate(180), pillow.new("L", noise.size)))
    clear.save(file, "PNG")
    (picture,) = (await only(file.getvalue())).shown
    assert picture.media_type == "image/jpeg"
    assert pillow.open(io.BytesIO(picture.data)).getpixel((700, 700)) == (255, 255, 255)


async def test_of_a_picture_that_moves_the_first_frame_is_shown(pillow: Any) -> None:
    file = io.BytesIO()
    frames = [pillow.new("RGB", (20, 10), colour) for colour in ("red", "green", "blue")]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    (picture,) = (await only(file.getvalue(), "moves.gif")).shown
    assert picture_size(picture.data) == ("image/png", 20, 10)


async def test_without_pillow_a_large_picture_is_one_line_with_the_remedy(no_pillow: None) -> None:
    (note,) = (await only(png(800, 800, noise=True), "noise.png")).notes
    assert note.startswith("noise.png is not shown to you: it has 1,9")
    assert f"{MAX_BYTES:,} are the most" in note
    assert "Pillow, which would scale it down, is not installed: pip install" in note
    assert "[pictures]" in note


async def test_without_pillow_a_side_that_providers_refuse_is_one_line(no_pillow: None) -> None:
    (note,) = (await only(png(9_000, 1))).notes
    assert "a side may have 8,000" in note


# the event loop


async def test_pictures_are_decoded_in_a_thread(pillow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    opened = pillow.open

    def noting(*given: Any, **named: Any) -> Any:
        threads.append(threading.current_thread().name)
        return opened(*given, **named)

    monkeypatch.setattr(pillow, "open", noting)
    await only(png())
    assert threads
    assert threading.main_thread().name not in threads


# tokens


def test_the_tokens_of_a_picture_are_an_upper_bound_for_both_providers() -> None:
    def tokens(width: int, height: int) -> int:
        return PictureReference(handle="", name="", media_type="", sha256="", width=width, height=height).tokens

    assert tokens(1_092, 1_092) >= 1_590  # Anthropic's own table
    assert tokens(1_024, 1_024) >= 765  # OpenAI's own example, which is scaled down to 768 first
    assert tokens(1, 1) == 255
    assert tokens(10**9, 10**9) == tokens(LONGEST_SIDE * 10, LONGEST_SIDE * 10)  # of a transcript that lies
    assert tokens(-(10**9), 10**9) == 0


async def test_bytes_of_pictures_are_in_no_repr() -> None:
    (picture,) = (await pictures_of([Artifact.from_bytes(png(), "plot.png")])).shown
    assert "\\x89PNG" not in repr(picture)
    assert len(repr(picture)) < 400
