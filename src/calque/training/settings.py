"""The training section of a config."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from calque.config import Config
from calque.data.batching import BatchConfig
from calque.data.subword_regularisation import FixedConfig, SubwordsConfig
from calque.layers.arithmetic import LATEST, Arithmetic
from calque.objectives.objective import ObjectiveConfig
from calque.training.optimisers import OptimiserConfig
from calque.training.schedules import ScheduleConfig

Precision = Literal["float32", "tf32", "bfloat16", "float16", "float64"]


class TrainingConfig(Config):
    """How a model is trained, validated and saved."""

    steps: int = Field(default=10_000, ge=1)
    """The number of updates of the weights."""
    accumulate: int = Field(default=1, ge=1)
    """The number of batches whose gradients are summed for one update."""
    accumulate_tokens: int = Field(default=0, ge=0)
    """The minimum number of target tokens per update, from as many batches as needed; with 0, `accumulate` applies."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The probability mass spread over the whole vocabulary (Szegedy 2016, §7)."""
    clip: float = Field(default=1.0, ge=0)
    """Gradients with a larger norm are scaled down to this norm; 0 turns this off."""
    clip_value: float = Field(default=0.0, ge=0)
    """Each element of a gradient is clipped to ± this value before the norm is clipped; 0 turns this off."""
    skips: int = Field(default=20, ge=1)
    """Updates whose loss or gradient is not finite are skipped; the run stops after this many of them in a row."""
    log_every: int = Field(default=20, ge=1)
    """The number of steps between two lines of metrics.jsonl."""
    validate_every: int = Field(default=500, ge=1)
    """The number of steps between two validations."""
    checkpoint_every: int = Field(default=500, ge=1)
    """The number of steps between two checkpoints, which is the most work that a crash can lose."""
    keep: int = Field(default=3, ge=1)
    """The number of checkpoints that are kept on disk."""
    patience: int = Field(default=0, ge=0)
    """Stop after this many validations in which neither the metric nor the loss improved; 0 turns this off."""
    metric: str = "auto"
    """The validation metric that selects models; for translation bleu, chrf, ter, exact_match, loss or perplexity. auto
    is bleu for translation, or exact_match if the median validation target has fewer than 4 words, as BLEU counts
    4-grams; perplexity for language models; f1 for taggers if labels describe spans, accuracy otherwise."""
    tie_breaker: str = "auto"
    """The metric that decides between models with equal `metric`; after it, the lower loss decides. auto is chrf for
    exact_match, and loss for all other metrics."""
    average: int = Field(default=0, ge=0)
    """The final model is the mean of this many checkpoints; with 0 or 1, it is the model with the best validation."""
    average_of: Literal["last", "best"] = "last"
    """Which checkpoints are averaged: the last, or those with the best validations (each validation then saves one)."""
    ema: float = Field(default=0.0, ge=0, lt=1)
    """The decay of an exponential moving average of the weights, which is validated and saved; 0 turns this off."""
    averaged_sgd: int = Field(default=0, ge=0)
    """After this many validations without improvement, the model becomes the mean of the weights of all steps from then
    on (non-monotonically triggered averaging: Merity 2018, §3, with 5); 0 turns this off."""
    samples: int = Field(default=4, ge=0)
    """The number of samples, such as translations, written to samples.txt at each validation."""
    watch_gradients: int = Field(default=0, ge=0)
    """At every N-th validation, record how gradients flow back through time on a fixed sample of the validation data,
    in gradients.jsonl and plots/gradients.png; 0 turns this off."""
    tensorboard: bool = False
    """Also write the metrics for TensorBoard, to RUN/tensorboard."""
    warm_start: Path | None = None
    """A run or model folder to initialise the weights from; embeddings of new pieces are initialised at random."""
    precision: Precision = "float32"
    """The precision of the forward pass; weights and optimiser state are in float32, or in float64 with float64. tf32
    rounds the inputs of matrix products to ten mantissa bits, in the forward and backward pass, on GPUs with TF32;
    elsewhere it is float32. float16 scales the loss so that small gradients do not underflow; most CPUs have no float16
    LSTM."""
    arithmetic: Arithmetic = LATEST
    """The version of the arithmetic of a step; a run keeps the version it was started with, so that it can be resumed
    exactly. 4: in compiled graphs on a GPU, ReLU by the kernels of products, and one gradient for queries, keys and
    values; 3: on a GPU, a padded output layer and
    LSTMs that read padding; 2: on a CPU, dropout from 16-bit random numbers, the loss in chunks and an LSTM of our own;
    1: as torch computes it."""
    compile: bool = False
    """Compile the forward and backward pass with torch.compile and, on a GPU, capture it as CUDA graphs. Batches then
    have static shapes. If training.subwords samples segmentations, shapes cannot be static, and nothing is compiled."""
    capture: bool = False
    """On a GPU, capture the forward and backward pass as CUDA graphs without compiling it: for small models, whose
    kernels take less time than their launches. Batches then have static shapes. `compile` includes this."""
    deterministic: bool = False
    """Use only deterministic operations; on a GPU this is slower and makes resuming exact."""
    sharded: bool = False
    """Shard weights and optimiser state among several processes (FSDP2)."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """The device to train on; auto is the fastest one available."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """The number of CPU threads; by default, all cores are used."""
    objective: ObjectiveConfig = ObjectiveConfig()
    subwords: SubwordsConfig = FixedConfig()
    """fixed: words are always segmented the same way; bpe-dropout or unigram: each epoch samples new segmentations."""
    batch: BatchConfig = BatchConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()

    @model_validator(mode="after")
    def _one_accumulation(self) -> "TrainingConfig":
        if self.accumulate > 1 and self.accumulate_tokens:
            raise ValueError(
                "accumulate (a number of batches) and accumulate_tokens (a number of tokens) cannot both be set"
            )
        return self

    @model_validator(mode="after")
    def _one_mean(self) -> "TrainingConfig":
        means = {"average": self.average > 1, "ema": self.ema > 0, "averaged_sgd": self.averaged_sgd > 0}
        if sum(means.values()) > 1:
            names = " and ".join(name for name, is_set in means.items() if is_set)
            raise ValueError(f"{names} all average the weights: set only one of them")
        return self

    @model_validator(mode="after")
    def _fitted_whole(self) -> "TrainingConfig":
        if self.sharded and self.batch.tokens == "auto":
            raise ValueError(
                'sharded and batch.tokens = "auto" cannot be combined, as trial steps need the whole model on one '
                "device; set batch.tokens to a number"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _static_if_compiled(cls, values: Any) -> Any:
        """Sets batch.shapes to static for `compile` and `capture`, unless batch.shapes is set or subwords vary."""
        if not isinstance(values, Mapping) or not (values.get("compile") or values.get("capture")):
            return values
        batch, subwords = values.get("batch", {}), values.get("subwords", {})
        is_open = isinstance(batch, Mapping) and "shapes" not in batch
        is_fixed = isinstance(subwords, FixedConfig) or (
            isinstance(subwords, Mapping) and subwords.get("kind", "fixed") == "fixed"
        )
        return {**values, "batch": {**batch, "shapes": "static"}} if is_open and is_fixed else values

    @model_validator(mode="after")
    def _compiled_shapes(self) -> "TrainingConfig":
        if self.batch.shapes == "static" or not isinstance(self.subwords, FixedConfig):
            return self
        if self.compile:
            raise ValueError(
                'compile needs batch.shapes = "static": with exact shapes nearly every batch would be recompiled'
            )
        if self.capture:
            raise ValueError(
                'capture needs batch.shapes = "static": with exact shapes nearly every batch would be captured anew'
            )
        return self

    @property
    def compiles(self) -> bool:
        """Whether the run is compiled: `compile` is set and its batches have static shapes."""
        return self.compile and self.batch.shapes == "static"

    @property
    def captures(self) -> bool:
        """Whether passes are captured on a GPU: the run is compiled, or `capture` is set and its shapes are static."""
        return (self.compile or self.capture) and self.batch.shapes == "static"

    @property
    def clips(self) -> bool:
        """Whether gradients are clipped."""
        return self.clip > 0 or self.clip_value > 0

    def divides(self, ranks: int) -> bool:
        """Whether the weights are sharded among this many ranks. A single rank holds all of them."""
        return self.sharded and ranks > 1
