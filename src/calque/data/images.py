"""Images as arrays of one size: decoded by Pillow, upright, in RGB, scaled to fit a square and padded.

An image that cannot be decoded, or that would take too much memory, raises a DataError with its name and the reason.
Letters: H height, W width.
"""

import io
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.errors import ConfigError, DataError

Array = NDArray[Any]
ImageSource = str | Path | bytes | Array
"""An image: the path of a file, the bytes of a file, or an array of uint8 [H,W,3]."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""The formats that are decoded. Pillow's other formats are rare or, like EPS, need external programs."""
LARGEST = 1 << 26  # pixels; a larger image is refused before it is decoded
LARGEST_FILE = 1 << 28  # bytes
ORIENTATION = 0x0112  # the EXIF tag; 5 to 8 exchange width and height
BACKGROUND = (255, 255, 255)  # shown where an image is transparent
_SUPPORTED = f"supported formats: {', '.join(FORMATS)}"


class Placement(NamedTuple):
    """Where an image lies in the square that it is scaled into: its size, and its distance from the left and top."""

    width: int
    height: int
    left: int
    top: int


class Picture(NamedTuple):
    """An image scaled into a square, and the width and height of the upright original."""

    pixels: Array  # uint8 [size,size,3]
    width: int
    height: int

    @property
    def placement(self) -> Placement:
        return placement(self.width, self.height, size=len(self.pixels))


def placement(width: int, height: int, *, size: int) -> Placement:
    """Where an image of W × H pixels lies in a square, when it is scaled to fit and centred.

    >>> placement(200, 100, size=64)
    Placement(width=64, height=32, left=0, top=16)
    """
    scale = size / max(width, height)
    across, down = max(1, round(width * scale)), max(1, round(height * scale))
    return Placement(across, down, (size - across) // 2, (size - down) // 2)


def read_image(source: ImageSource, *, size: int, name: str | None = None) -> Picture:
    """An image, upright and in RGB, scaled to fit a square of `size` pixels and padded with black.

    Only the first frame of an animation is read. Transparent parts become white. `name` is the name in messages for an
    image that is not a file.
    """
    Image = pillow()
    if isinstance(source, np.ndarray):
        image = Image.fromarray(_checked_array(source, name=name or "image"))
        width, height = image.size
    else:
        name = name or ("image" if isinstance(source, bytes) else str(source))
        image, (width, height) = _decoded(source, name=name, size=size)
    place = placement(width, height, size=size)
    resized = image.resize((place.width, place.height), Image.Resampling.BICUBIC, reducing_gap=3.0)
    square = Image.new("RGB", (size, size))
    square.paste(resized, (place.left, place.top))
    return Picture(np.array(square, dtype=np.uint8), width, height)


def check_image(path: Path) -> None:
    """Raises a DataError if an image cannot be decoded."""
    _decoded(path, name=str(path), size=32)


def pillow() -> Any:
    """The module PIL.Image. Raises a ConfigError with the pip command if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise ConfigError(
            "images are decoded by the package pillow, which is not installed: pip install pillow"
        ) from None
    return Image


def _decoded(source: str | Path | bytes, *, name: str, size: int) -> tuple[Any, tuple[int, int]]:
    """The image as decoded by Pillow, upright and in RGB, and the width and height of the original.

    A large JPEG is decoded at reduced size, but with at least three times `size` pixels per side.
    """
    Image = pillow()
    from PIL import ImageOps

    try:
        content = _content(source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                if image.width * image.height > LARGEST:
                    raise DataError(_too_large(image.width, image.height))
                width, height = image.size
                is_turned = image.getexif().get(ORIENTATION) in (5, 6, 7, 8)
                image.draft("RGB", (3 * size, 3 * size))
                image.load()
                upright = _rgb(ImageOps.exif_transpose(image))
                return upright, (height, width) if is_turned else (width, height)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except OSError as error:  # files that cannot be opened, and what Pillow cannot identify
        raise DataError(f"{name}: {_reason(error)}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(f"{name}: {_too_large()}") from None
    except Exception as error:  # decoders of damaged files raise exceptions of many kinds
        raise DataError(f"{name}: damaged: {str(error) or type(error).__name__}") from None


def _content(source: str | Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    path = Path(source)
    if path.exists() and not path.is_file():
        raise DataError("not a file")
    if path.stat().st_size > LARGEST_FILE:
        raise DataError(f"the file is larger than {LARGEST_FILE >> 20} MiB")
    return path.read_bytes()


def _rgb(image: Any) -> Any:
    """The image in RGB: 16-bit grey scaled to 8 bits, transparent parts on a white background."""
    Image = pillow()
    if image.mode.startswith("I") or image.mode == "F":
        grey = np.array(image, dtype=np.float64)
        scale = 257.0 if grey.max(initial=0) > 255 else 1.0
        return Image.fromarray((grey / scale).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        background = Image.new("RGBA", layer.size, (*BACKGROUND, 255))
        return Image.alpha_composite(background, layer).convert("RGB")
    return image.convert("RGB")


def _checked_array(pixels: Array, *, name: str) -> Array:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise DataError(f"{name}: expected an array of uint8 [height,width,3], found {pixels.dtype} {pixels.shape}")
    if pixels.shape[0] * pixels.shape[1] > LARGEST:
        raise DataError(f"{name}: {_too_large(pixels.shape[1], pixels.shape[0])}")
    return np.ascontiguousarray(pixels)


def _too_large(width: int = 0, height: int = 0) -> str:
    found = f"{width:,} × {height:,} pixels" if width else "too many pixels"
    return f"{found}; at most {LARGEST:,} can be decoded: scale the image down first"


def _reason(error: OSError) -> str:
    if error.strerror:
        return "no such file" if isinstance(error, FileNotFoundError) else error.strerror
    text = str(error)
    if "cannot identify image file" in text:
        return f"not an image, or damaged; {_SUPPORTED}"
    return f"damaged: {text}"
