"""Joins text, model and search: raw text in, raw text out. What `calque.load` gives.

Everything below may enter: models, search, text, the loss of a task, the utility of an evaluation.
"""

from calque.tasks.decoding import MARKS, decoding_step, pad_source
from calque.translator.answers import Candidate, Detail, Request, Scored, Translation, Wishes
from calque.translator.devices import DEVICES, PRECISIONS, DeviceName, PrecisionName, choose_device
from calque.translator.folder import KIND, WEIGHTS, load, load_weights_into, refuse_unfit, save_model, weights_of
from calque.translator.translating import Translator

__all__ = [
    "DEVICES",
    "KIND",
    "MARKS",
    "PRECISIONS",
    "WEIGHTS",
    "Candidate",
    "Detail",
    "DeviceName",
    "PrecisionName",
    "Request",
    "Scored",
    "Translation",
    "Translator",
    "Wishes",
    "choose_device",
    "decoding_step",
    "load",
    "load_weights_into",
    "pad_source",
    "refuse_unfit",
    "save_model",
    "weights_of",
]
