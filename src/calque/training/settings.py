"""The training section of a config."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from calque.config import Config
from calque.data.batching import BatchConfig
from calque.data.subword_regularisation import FixedConfig, SubwordsConfig
from calque.objectives.objective import ObjectiveConfig
from calque.training.optimisers import OptimiserConfig
from calque.training.schedules import ScheduleConfig

Precision = Literal["float32", "tf32", "bfloat16", "float16", "float64"]


class TrainingConfig(Config):
    """How long, how fast and how carefully a model is trained."""

    steps: int = Field(default=10_000, ge=1)
    """Updates of the weights."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are summed for one update."""
    accumulate_tokens: int = Field(default=0, ge=0)
    """Target tokens that one update waits for, in as many batches as it takes; 0 counts batches instead."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The share of each target that is spread over the whole vocabulary (Szegedy 2016, §7)."""
    clip: float = Field(default=1.0, ge=0)
    """Gradients are scaled down to this norm; 0 leaves them."""
    clip_value: float = Field(default=0.0, ge=0)
    """Before that, each number of a gradient is kept within ± this; 0 leaves them."""
    skips: int = Field(default=20, ge=1)
    """Updates in a row whose loss or gradient is not finite, and which are left out, before the run stops."""
    log_every: int = Field(default=20, ge=1)
    """Steps between two lines of metrics.jsonl."""
    validate_every: int = Field(default=500, ge=1)
    """Steps between two validations."""
    checkpoint_every: int = Field(default=500, ge=1)
    """Steps between two checkpoints: the most that a crash can lose."""
    keep: int = Field(default=3, ge=1)
    """How many checkpoints stay on disk."""
    patience: int = Field(default=0, ge=0)
    """Stop after so many validations in which neither the metric nor the loss got better; 0 never does."""
    metric: str = "auto"
    """What makes a model better, on the validation data. auto is bleu for translation (chrf, ter, exact_match of greedy
    translations, loss and perplexity are others), perplexity for language models."""
    average: int = Field(default=0, ge=0)
    """The model is the mean of so many checkpoints; 0 or 1 keeps the best validated one instead."""
    average_of: Literal["last", "best"] = "last"
    """Which checkpoints: the last ones, or those that validated best (then one is saved at each validation)."""
    ema: float = Field(default=0.0, ge=0, lt=1)
    """The model is a moving average of the weights, which keeps this share of itself at each step; 0 takes none."""
    averaged_sgd: int = Field(default=0, ge=0)
    """Once so many validations were not better than the best before them, the model is the mean of the weights of all
    steps from then on (non-monotonically triggered averaging: Merity 2018, §3, with 5); 0 never averages so."""
    samples: int = Field(default=4, ge=0)
    """Samples, such as translations, written to samples.txt at each validation."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too, to RUN/tensorboard."""
    warm_start: Path | None = None
    """A run or model folder whose weights the run begins with; rows of new pieces are drawn as usual."""
    precision: Precision = "float32"
    """What the forward pass computes in; weights and optimiser stay in float32 (float64: in float64). tf32 rounds the
    factors of matrix products, in both passes, to ten binary digits on GPUs that are faster so; elsewhere it is
    float32. float16 scales the loss so that small gradients survive; most CPUs have no LSTM in it."""
    compile: bool = False
    """Compile encoder and decoder, forwards and backwards, with torch.compile; needs batch.shapes = "static"."""
    deterministic: bool = False
    """Only use operations that give the same bits each time; on a GPU that costs speed and makes resuming exact."""
    sharded: bool = False
    """With several processes: each holds a part of the weights and of the optimiser's state (FSDP2)."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto takes the best there is."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads; all cores unless said."""
    objective: ObjectiveConfig = ObjectiveConfig()
    subwords: SubwordsConfig = FixedConfig()
    """fixed: words are always cut the same way; bpe-dropout or unigram: each epoch cuts them anew."""
    batch: BatchConfig = BatchConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()

    @model_validator(mode="after")
    def _one_accumulation(self) -> "TrainingConfig":
        if self.accumulate > 1 and self.accumulate_tokens:
            raise ValueError("accumulate counts batches and accumulate_tokens tokens: give one of them")
        return self

    @model_validator(mode="after")
    def _one_mean(self) -> "TrainingConfig":
        means = {"average": self.average > 1, "ema": self.ema > 0, "averaged_sgd": self.averaged_sgd > 0}
        if sum(means.values()) > 1:
            names = " and ".join(name for name, is_asked in means.items() if is_asked)
            raise ValueError(f"{names} are both means of the weights over time: set one of them to 0")
        return self

    @model_validator(mode="after")
    def _fitted_whole(self) -> "TrainingConfig":
        if self.sharded and self.batch.tokens == "auto":
            raise ValueError('sharded and batch.tokens = "auto" do not go together: a part cannot be tried alone')
        return self

    @model_validator(mode="after")
    def _compiled_shapes(self) -> "TrainingConfig":
        if self.compile and self.batch.shapes != "static":
            raise ValueError(
                'compile needs batch.shapes = "static": with exact shapes nearly every batch would be compiled anew'
            )
        return self

    def divides(self, ranks: int) -> bool:
        """Whether so many ranks hold parts of the weights; a single one has all of them."""
        return self.sharded and ranks > 1
