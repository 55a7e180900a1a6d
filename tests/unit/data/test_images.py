"""Images are read upright, in RGB and in their place; what cannot be decoded is refused with its name."""

import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from calque.data import images
from calque.data.images import Placement, check_image, placement, read_image
from calque.errors import DataError


def encoded(image: Image.Image, format: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, format=format, **options)
    return file.getvalue()


def halves(mode: str = "RGB") -> Image.Image:
    """Black on the left, white on the right: twice as wide as high."""
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:, 20:] = 255
    return Image.fromarray(pixels).convert(mode)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header announces these sizes."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr", "HSV", "LAB", "I;16"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    deep = Image.fromarray(np.array(halves("L")).astype(np.uint16) * 257)
    image = deep if mode == "I;16" else halves(mode)
    format = {"CMYK": "TIFF", "YCbCr": "TIFF", "LAB": "TIFF", "HSV": "PNG"}.get(mode, "PNG")
    content = encoded(image.convert("RGB") if mode == "HSV" else image, format)
    pixels = read_image(content, size=16).pixels
    assert pixels.shape == (16, 16, 3) and pixels.dtype == np.uint8
    assert (pixels[:4] == 0).all() and (pixels[12:] == 0).all()  # padding above and below
    assert pixels[6:10, :6].max() < 20 and pixels[6:10, 10:].min() > 235


def test_transparent_parts_show_white() -> None:
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    image.paste((200, 0, 0, 255), (0, 0, 4, 8))
    pixels = read_image(encoded(image), size=8).pixels
    assert (pixels[:, 5:] == 255).all() and (pixels[:, :3] == (200, 0, 0)).all()
    palette = image.convert("P")
    palette.info["transparency"] = 0
    assert read_image(encoded(palette), size=8).pixels.shape == (8, 8, 3)


def test_an_animation_is_its_first_frame() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    content = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert tuple(read_image(content, size=8).pixels[4, 4]) == (255, 0, 0)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_upright(orientation: int) -> None:
    """The tag says how the camera was held: whatever it is, the picture with its corner red comes out the same."""
    upright = Image.new("RGB", (40, 20), "white")
    upright.paste((255, 0, 0), (0, 0, 20, 10))
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # Pillow's transposition that stores the picture this way
    turned = upright if orientation == 1 else upright.transpose(Image.Transpose(undo[orientation]))
    exif = Image.Exif()
    exif[images.ORIENTATION] = orientation
    picture = read_image(encoded(turned, "PNG", exif=exif), size=40)
    assert (picture.width, picture.height) == (40, 20)
    assert np.array_equal(picture.pixels, read_image(encoded(upright), size=40).pixels)


def test_a_large_jpeg_is_where_it_would_be_at_full_size() -> None:
    """It is decoded at a fraction of its size, which must not change its place."""
    image = Image.new("RGB", (1600, 800), "white")
    image.paste((0, 0, 0), (800, 0, 1600, 800))
    picture = read_image(encoded(image, "JPEG", quality=95), size=32)
    assert (picture.width, picture.height) == (1600, 800)
    assert picture.placement == Placement(32, 16, 0, 8)
    assert picture.pixels[8:24, :14].min() > 240 and picture.pixels[8:24, 18:].max() < 15


@given(width=st.integers(1, 5000), height=st.integers(1, 5000), size=st.integers(8, 512))
@settings(max_examples=200, deadline=None)
def test_an_image_fits_its_square_and_touches_two_sides(width: int, height: int, size: int) -> None:
    place = placement(width, height, size=size)
    assert max(place.width, place.height) == size
    assert place.left >= 0 and place.top >= 0
    assert place.left + place.width <= size and place.top + place.height <= size
    assert abs((size - place.width) - 2 * place.left) <= 1 and abs((size - place.height) - 2 * place.top) <= 1


def test_arrays_are_images() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    assert np.array_equal(read_image(pixels, size=8).pixels, pixels)
    for wrong in (pixels.astype(float), pixels[..., 0], pixels[:0]):
        with pytest.raises(DataError, match=r"expected an array of uint8 \[height,width,3\], found"):
            read_image(wrong, size=8)


@pytest.mark.parametrize("side", [8_500, 60_000, 2**31 - 1])
def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_that_claims(side, side))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda *_: pytest.fail("it was decoded"))
    with warnings.catch_warnings(), pytest.raises(DataError, match=r"bomb\.png: .*at most 67,108,864 can be decoded"):
        warnings.simplefilter("error")
        check_image(path)


def test_text_that_unpacks_to_more_than_it_should_is_refused() -> None:
    content = encoded(halves())
    bomb = chunk(b"zTXt", b"comment\0\0" + zlib.compress(b"x" * (80 << 20)))
    at = content.index(b"IDAT") - 4
    with pytest.raises(DataError, match="damaged"):
        read_image(content[:at] + bomb + content[at:], size=8, name="text.png")


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_damaged_files_are_refused_with_their_name(tmp_path: Path, format: str) -> None:
    """Cut at any place or with bytes changed, an image is read or refused, and nothing else."""
    generator = np.random.default_rng(1)
    pixels = generator.integers(0, 256, (24, 24, 3), dtype=np.uint8)
    content = encoded(Image.fromarray(pixels), format)
    path = tmp_path / "damaged"
    refused = 0
    for trial in range(40):
        damaged = bytearray(content)
        if trial % 2:
            damaged = damaged[: int(generator.integers(0, len(content)))]
        else:
            for at in generator.integers(0, len(content), 8):
                damaged[at] = generator.integers(0, 256)
        path.write_bytes(bytes(damaged))
        try:
            check_image(path)
        except DataError as error:
            refused += 1
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)
    assert refused > 15


def test_other_formats_and_other_files_are_refused(tmp_path: Path) -> None:
    postscript = tmp_path / "picture.eps"
    postscript.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "empty.png").touch()
    for name in ("picture.eps", "text.png", "empty.png"):
        with pytest.raises(DataError, match=rf"{name}: not an image, or damaged; supported formats: PNG, JPEG"):
            check_image(tmp_path / name)
    with pytest.raises(DataError, match=r"missing\.png: no such file"):
        check_image(tmp_path / "missing.png")
    with pytest.raises(DataError, match="not a file"):
        check_image(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.png"
    with path.open("wb") as file:
        file.truncate(images.LARGEST_FILE + 1)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    with pytest.raises(DataError, match="the file is larger than 256 MiB"):
        check_image(path)
