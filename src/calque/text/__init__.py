"""Text to pieces and back: vocabularies, tokenizers, cleaning.

It does not import torch, and of Calque only config, errors and parsing.
"""

from calque.text.bytes import BytesConfig, BytesTokenizer
from calque.text.characters import CharactersConfig, CharactersTokenizer
from calque.text.cleaning import strip_bom, strip_return
from calque.text.copy_ids import NumberedText, number_source, number_target
from calque.text.folder import load_columns, load_tokenizer, load_tokenizers, save_columns, save_tokenizers
from calque.text.forms import FormsConfig, TaggerVocabularies, learn_vocabularies
from calque.text.sentencepiece import SentencePieceConfig, SentencePieceTokenizer
from calque.text.tokenizer import Tokenizer, Tokenizers, normalise
from calque.text.tokens import TokensConfig, TokensTokenizer
from calque.text.training import ColumnsConfig, GivenConfig, TextConfig, train_tokenizer, train_tokenizers
from calque.text.vocabulary import BOS, EOS, PAD, PIECES, UNK, Vocabulary
from calque.text.words import WordsConfig, WordsTokenizer

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "PIECES",
    "UNK",
    "BytesConfig",
    "BytesTokenizer",
    "CharactersConfig",
    "CharactersTokenizer",
    "ColumnsConfig",
    "FormsConfig",
    "GivenConfig",
    "NumberedText",
    "SentencePieceConfig",
    "SentencePieceTokenizer",
    "TaggerVocabularies",
    "TextConfig",
    "Tokenizer",
    "Tokenizers",
    "TokensConfig",
    "TokensTokenizer",
    "Vocabulary",
    "WordsConfig",
    "WordsTokenizer",
    "learn_vocabularies",
    "load_columns",
    "load_tokenizer",
    "load_tokenizers",
    "normalise",
    "number_source",
    "number_target",
    "save_columns",
    "save_tokenizers",
    "strip_bom",
    "strip_return",
    "train_tokenizer",
    "train_tokenizers",
]
