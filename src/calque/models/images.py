"""From images to vectors: a grid of convolutional features, or square patches.

Letters: B images, H height and width in pixels, G rows and columns of the grid, S = G·G positions, C channels, D width.
"""

from abc import ABC, abstractmethod
from functools import cache
from typing import Annotated, Literal, assert_never

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn import functional as F

from calque.config import Config
from calque.layers.bounds import Width
from calque.layers.dropout import dropout
from calque.layers.positions import sinusoids
from calque.models.interfaces import Encoder, Inputs, Memory, MemoryShape
from calque.tensors import Padded

MEAN, DEVIATION = 127.5, 63.75  # of a pixel's value: inputs lie between ±2


class GridConfig(Config):
    """A convolutional network; each of its stages halves height and width."""

    kind: Literal["grid"] = "grid"
    stages: int = Field(default=3, ge=1, le=6)
    """Number of stages: the grid has size / 2^stages rows and columns."""
    width: Width = 128
    """Width of the vectors. Earlier stages are narrower: half as wide, a quarter as wide and so on."""
    normalisation: Literal["group", "none"] = "group"
    """Normalisation after every convolution: group (over the features of each image; Wu and He 2018) or none."""
    positions: Literal["sinusoidal", "none"] = "sinusoidal"
    """The encoding of row and column that is added to every vector: sinusoidal, or none (Xu 2015)."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the vectors."""

    @property
    def stride(self) -> int:
        """The height and width, in pixels, of the image area that a vector represents."""
        return 1 << self.stages

    @field_validator("width")
    @classmethod
    def _even(cls, width: int) -> int:
        return _refuse_odd(width)


class PatchesConfig(Config):
    """Square patches, each mapped to a vector (Dosovitskiy 2021)."""

    kind: Literal["patches"] = "patches"
    patch: int = Field(default=8, ge=1, le=128)
    """Height and width of a patch in pixels."""
    width: Width = 128
    """Width of the vectors."""
    positions: Literal["sinusoidal", "none"] = "sinusoidal"
    """The encoding of row and column that is added to every vector: sinusoidal or none."""

    @property
    def stride(self) -> int:
        """The height and width, in pixels, of the image area that a vector represents."""
        return self.patch

    @field_validator("width")
    @classmethod
    def _even(cls, width: int) -> int:
        return _refuse_odd(width)


ImageConfig = Annotated[GridConfig | PatchesConfig, Field(discriminator="kind")]


class ImageInputs(Inputs, ABC):
    """Encodes an image as a sequence of vectors, one per grid cell, row by row from the upper left corner."""

    def forward(self, source: Padded) -> Padded:
        """One vector for each of the S = G·G grid cells of an image, [B,S,D], given pixels [B,H,H,3] from 0 to 255."""
        weight = next(self.parameters())
        pixels = ((source.values.to(weight.dtype) - MEAN) / DEVIATION).permute(0, 3, 1, 2)
        grid = self.grid(pixels)  # [B,D,G,G]
        vectors = grid.flatten(2).transpose(1, 2)
        lengths = torch.full((len(vectors),), vectors.shape[1])
        placed = (
            None if vectors.device.type == "cpu" else torch.full_like(lengths, vectors.shape[1], device=vectors.device)
        )
        return Padded(vectors, lengths, placed)

    @abstractmethod
    def grid(self, pixels: Tensor) -> Tensor:
        """One vector for each cell of a grid over the image, [B,D,G,G], given normalised pixels [B,3,H,H]."""


class GridInputs(ImageInputs):
    """A stack of stages x ← relu(norm(conv(x))), x ← x + relu(norm(conv(x))), in which the first conv has stride 2."""

    def __init__(self, config: GridConfig) -> None:
        super().__init__()
        widths = [max(8, config.width >> (config.stages - 1 - stage)) for stage in range(config.stages - 1)]
        widths.append(config.width)
        self.stages = nn.ModuleList(
            GridStage(before, width=width, normalised=config.normalisation == "group")
            for before, width in zip([3, *widths], widths, strict=False)
        )
        self.has_positions = config.positions == "sinusoidal"
        self.dropout = config.dropout
        self.width = config.width

    def grid(self, pixels: Tensor) -> Tensor:
        for stage in self.stages:
            pixels = stage(pixels)
        positions = grid_positions(pixels) if self.has_positions else 0
        return dropout(pixels + positions, self.dropout, self.training)


class GridStage(nn.Module):
    """Two convolutions of 3 × 3 pixels; the first halves height and width, the second has a residual connection."""

    def __init__(self, before: int, *, width: int, normalised: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, width, 3, stride=2, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        groups = next(count for count in (8, 4, 2, 1) if width % count == 0)
        self.norms = nn.ModuleList(nn.GroupNorm(groups, width) if normalised else nn.Identity() for _ in range(2))

    def forward(self, values: Tensor) -> Tensor:
        values = F.relu(self.norms[0](self.first(values)))
        return values + F.relu(self.norms[1](self.second(values)))


class PatchInputs(ImageInputs):
    """x = W p + b for every square patch p of pixels."""

    def __init__(self, config: PatchesConfig) -> None:
        super().__init__()
        self.project = nn.Conv2d(3, config.width, config.patch, stride=config.patch)
        self.has_positions = config.positions == "sinusoidal"
        self.width = config.width

    def grid(self, pixels: Tensor) -> Tensor:
        vectors: Tensor = self.project(pixels)
        return vectors + grid_positions(vectors) if self.has_positions else vectors


class GridEncoder(Encoder):
    """The vectors of an image as memory, without further layers; its final state is their mean (Xu 2015, §3.1.2)."""

    needs_host_lengths = False

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.shape = MemoryShape(width=inputs.width, layers=1, parts=2, inputs=inputs.width)

    def forward(self, source: Padded) -> Memory:
        read = self.read(source)
        mean = read.values.mean(dim=1)[:, None]  # images have no padding
        return Memory(read.values, read.mask, read.values, None, (mean, mean))


def grid_positions(grid: Tensor) -> Tensor:
    """Encodings [D,G,G] of rows and columns of a grid [B,D,G,G], half of the channels for each (Wang and Liu 2021)."""
    return _grid_positions(*grid.shape[1:], grid.device, grid.dtype)


@cache  # nothing is discarded, as captured CUDA graphs read the encodings
@torch.inference_mode(False)  # so that training can use what was computed for a prediction
def _grid_positions(width: int, rows: int, columns: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    half = width // 4 * 2  # even, as sinusoids come in pairs
    vertical = sinusoids(rows, width=half)[:, None].expand(rows, columns, half)
    horizontal = sinusoids(columns, width=width - half)[None].expand(rows, columns, width - half)
    return torch.cat([vertical, horizontal], dim=-1).permute(2, 0, 1).to(device, dtype)


def _refuse_odd(width: int) -> int:
    if width % 2:
        raise ValueError(f"width {width} must be even: positions are encoded in pairs of sines and cosines")
    return width


def build_image_inputs(config: ImageConfig) -> ImageInputs:
    """The layer that computes the vectors of images, as a config describes it."""
    match config:
        case GridConfig():
            return GridInputs(config)
        case PatchesConfig():
            return PatchInputs(config)
        case _:
            assert_never(config)
