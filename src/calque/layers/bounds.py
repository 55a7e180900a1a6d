"""How large the parts of a model may be: far beyond any that was ever trained, and short of what no machine can hold.

A slip of the finger is then told by its key before anything is built.
"""

from typing import Annotated

from pydantic import Field

Layers = Annotated[int, Field(ge=1, le=256)]
"""Parts that stand on each other."""
Width = Annotated[int, Field(ge=1, le=1 << 16)]
"""Numbers in a vector; a square matrix of the largest takes 16 GiB."""
Heads = Annotated[int, Field(ge=1, le=1 << 12)]
"""Attentions side by side."""
Kernel = Annotated[int, Field(ge=1, le=1 << 10)]
"""Neighbouring positions that one convolution sees."""
Places = Annotated[int, Field(ge=1, le=1 << 20)]
"""Positions that are told apart, or that a window spans."""
Samples = Annotated[int, Field(ge=1, le=1 << 20)]
"""Words drawn for one batch."""
