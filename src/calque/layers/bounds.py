"""Upper bounds for model sizes, far above those of any trained model.

A mistyped size is rejected with its key before a model that no machine could hold is built.
"""

from typing import Annotated

from pydantic import Field

Layers = Annotated[int, Field(ge=1, le=256)]
"""Number of stacked layers."""
Width = Annotated[int, Field(ge=1, le=1 << 16)]
"""Width of a vector; a square matrix of the maximum width takes 16 GiB."""
Heads = Annotated[int, Field(ge=1, le=1 << 12)]
"""Number of attention heads."""
Kernel = Annotated[int, Field(ge=1, le=1 << 10)]
"""Kernel size of a convolution."""
Places = Annotated[int, Field(ge=1, le=1 << 20)]
"""Number of distinct positions, or positions in a window."""
Samples = Annotated[int, Field(ge=1, le=1 << 20)]
"""Number of words sampled per batch."""
