"""Models joined with text processing and search: raw inputs in, results out. `calque.load` returns these classes.

May import every package below it: models, search, text, the losses of tasks, the utilities of evaluation.
"""

from calque.devices import DEVICES, PRECISIONS, DeviceName, PrecisionName, choose_device
from calque.engine.captioner import Caption, CaptionAnswer, Captioner, CaptionRequest
from calque.engine.captioner_folder import save_captioner
from calque.engine.decoding import ChangeAttention
from calque.engine.engine import Engine
from calque.engine.folder import (
    Loaded,
    architecture,
    is_statistical,
    load,
    load_captioner,
    load_recogniser,
    load_recommender,
    load_sentence_encoder,
    load_tagger,
    load_text_generator,
    load_translator,
    model_kind,
)
from calque.engine.language_model_folder import save_language_model
from calque.engine.model_files import KIND, WEIGHTS
from calque.engine.noisy_channel import Channel
from calque.engine.phrase_translator import PhraseEngine, PhraseTranslator
from calque.engine.preparation import PendingAnswer
from calque.engine.recogniser import Recogniser, TimedWord, Transcript
from calque.engine.recogniser_folder import save_recogniser
from calque.engine.recommender import History, Recommendations, Recommender
from calque.engine.recommender_folder import save_recommender
from calque.engine.sentence_encoder import Neighbour, SentenceEncoder
from calque.engine.sentence_encoder_folder import save_sentence_encoder
from calque.engine.tagger import Sentence, TaggedSentence, Tagger
from calque.engine.tagger_folder import save_tagger
from calque.engine.text_generator import TextGenerator, TextPerplexity
from calque.engine.translation_folder import save_model
from calque.engine.translator import Translator
from calque.engine.types import Answer, Candidate, Detail, Request, Scored, Translation
from calque.objectives.decoding_step import MARKS, decoding_step, pad_source

__all__ = [
    "DEVICES",
    "KIND",
    "MARKS",
    "PRECISIONS",
    "WEIGHTS",
    "Answer",
    "Candidate",
    "Caption",
    "CaptionAnswer",
    "CaptionRequest",
    "Captioner",
    "ChangeAttention",
    "Channel",
    "Detail",
    "DeviceName",
    "Engine",
    "History",
    "Loaded",
    "Neighbour",
    "PendingAnswer",
    "PhraseEngine",
    "PhraseTranslator",
    "PrecisionName",
    "Recogniser",
    "Recommendations",
    "Recommender",
    "Request",
    "Scored",
    "Sentence",
    "SentenceEncoder",
    "TaggedSentence",
    "Tagger",
    "TextGenerator",
    "TextPerplexity",
    "TimedWord",
    "Transcript",
    "Translation",
    "Translator",
    "architecture",
    "choose_device",
    "decoding_step",
    "is_statistical",
    "load",
    "load_captioner",
    "load_recogniser",
    "load_recommender",
    "load_sentence_encoder",
    "load_tagger",
    "load_text_generator",
    "load_translator",
    "model_kind",
    "pad_source",
    "save_captioner",
    "save_language_model",
    "save_model",
    "save_recogniser",
    "save_recommender",
    "save_sentence_encoder",
    "save_tagger",
]
