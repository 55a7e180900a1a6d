"""Named systems: a system is a model config, the paper that it follows, and how it differs from the paper."""

from typing import NamedTuple

from calque.models.captioner import CaptionerConfig
from calque.models.hidden_markov import HiddenMarkovConfig
from calque.models.language_model import LanguageModelConfig
from calque.models.model import ModelConfig
from calque.models.phrase_based import PhraseBasedConfig
from calque.models.recogniser import RecogniserConfig
from calque.models.recommender import RecommenderConfig
from calque.models.sentence_encoder import SentenceEncoderConfig
from calque.models.tagger import TaggerConfig

AnyModelConfig = (
    ModelConfig
    | LanguageModelConfig
    | TaggerConfig
    | PhraseBasedConfig
    | SentenceEncoderConfig
    | RecommenderConfig
    | RecogniserConfig
    | HiddenMarkovConfig
    | CaptionerConfig
)


class System(NamedTuple):
    """A model config that can be trained by name."""

    model: AnyModelConfig
    summary: str
    paper: str
    departures: str = ""  # how it differs from the paper


SUBWORDS = "subwords instead of words"
BIASED = f"{SUBWORDS}; the output layer has a bias"
DRAWN = "weights have PyTorch's default initialisation, not an orthogonal or Gaussian one"

HALVES = "sines and cosines are not interleaved; the attention projections and the output layer have biases"
