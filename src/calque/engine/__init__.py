"""Text, model and search joined: raw text in, raw text or labels out. `calque.load` returns these classes.

May import every room below: models, search, text, the losses of tasks, the utilities of evaluation.
"""

from calque.devices import DEVICES, PRECISIONS, DeviceName, PrecisionName, choose_device
from calque.engine.folder import (
    KIND,
    WEIGHTS,
    Loaded,
    load,
    load_tagger,
    load_text_generator,
    load_translator,
    model_kind,
    save_language_model,
    save_model,
    save_tagger,
)
from calque.engine.tagger import Sentence, TaggedSentence, Tagger
from calque.engine.text_generator import TextGenerator, TextPerplexity
from calque.engine.translator import Translator
from calque.engine.types import Candidate, Detail, OutputOptions, Request, Scored, Translation
from calque.objectives.decoding_step import MARKS, decoding_step, pad_source

__all__ = [
    "DEVICES",
    "KIND",
    "MARKS",
    "PRECISIONS",
    "WEIGHTS",
    "Candidate",
    "Detail",
    "DeviceName",
    "Loaded",
    "OutputOptions",
    "PrecisionName",
    "Request",
    "Scored",
    "Sentence",
    "TaggedSentence",
    "Tagger",
    "TextGenerator",
    "TextPerplexity",
    "Translation",
    "Translator",
    "choose_device",
    "decoding_step",
    "load",
    "load_tagger",
    "load_text_generator",
    "load_translator",
    "model_kind",
    "pad_source",
    "save_language_model",
    "save_model",
    "save_tagger",
]
