"""Layer normalisation and RMS normalisation. Letters: D width."""

from typing import Literal, assert_never

from torch import nn

NormName = Literal["layer", "rms"]
Norm = nn.LayerNorm | nn.RMSNorm


def build_norm(name: NormName, *, width: int) -> Norm:
    """The normalisation layer called `name`.

    layer: w·(x − mean(x)) / √(var(x) + 10⁻⁵) + b (Ba 2016);
    rms: w·x / √(mean(x²) + 10⁻⁶), neither centred nor shifted (Zhang and Sennrich 2019, eq. 4; the epsilon, which is
    not in the equation, avoids division by zero).
    """
    match name:
        case "layer":
            return nn.LayerNorm(width)
        case "rms":
            return nn.RMSNorm(width, eps=1e-6)
        case _:
            assert_never(name)
