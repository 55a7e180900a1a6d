"""The output layers of models over a vocabulary."""

from typing import Annotated, assert_never

from pydantic import Field

from calque.errors import ConfigError
from calque.layers.adaptive import AdaptiveOutput, AdaptiveOutputConfig
from calque.layers.output import FullOutput, FullOutputConfig, OutputLayer
from calque.layers.sampled import SampledOutput, SampledOutputConfig

OutputConfig = Annotated[FullOutputConfig | SampledOutputConfig | AdaptiveOutputConfig, Field(discriminator="kind")]


def build_output(config: OutputConfig, *, vocabulary_size: int, width: int) -> OutputLayer:
    """The output layer that a config describes, for hidden vectors of the given width."""
    try:
        match config:
            case FullOutputConfig():
                return FullOutput(vocabulary_size, width=width)
            case SampledOutputConfig():
                return SampledOutput(config, vocabulary_size=vocabulary_size, width=width)
            case AdaptiveOutputConfig():
                return AdaptiveOutput(config, vocabulary_size=vocabulary_size, width=width)
            case _:
                assert_never(config)
    except ValueError as error:
        raise ConfigError(f"model.output: {error}") from None
