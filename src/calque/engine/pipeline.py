"""From lines to translations: constraints, splitting, search and reranking, shared by files, pipes and terminals."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from calque.data.lines import Line
from calque.engine import OutputOptions, Translation, Translator
from calque.engine.constraint_files import RequestBuilder
from calque.engine.noisy_channel import DirectionCheck, rerank
from calque.engine.splitting import split_requests
from calque.engine.text_generator import TextGenerator
from calque.search.settings import SearchConfig

WRONG_DIRECTION = (
    "--reverse: this model seems to translate in the same direction as the first one: sources predict translations "
    "well, but translations predict sources poorly; train it with --source and --target exchanged"
)


def to_standard_error(text: str) -> None:
    """Standard output is for results only."""
    print(text, file=sys.stderr)


class Channel(NamedTuple):
    """The models that rerank n-best lists."""

    reverse: Translator
    language: TextGenerator | None
    direction: DirectionCheck


class TranslatedLine(NamedTuple):
    """A line, the source text in it, and its translation."""

    line: Line
    source: str  # without marks
    translation: Translation


class Pipeline(NamedTuple):
    """How lines are translated."""

    translator: Translator
    search: SearchConfig
    requests: RequestBuilder
    options: OutputOptions
    nbest: int
    splits: bool = False  # whether long lines are split into sentences
    channel: Channel | None = None
    warn: Callable[[str], None] = to_standard_error

    def translate(self, lines: Sequence[Line]) -> Iterator[TranslatedLine]:
        """One translation per line, in order; the lines are consecutive in their file."""
        line_requests = self.requests.build(lines)
        tokenizers, length_profile = self.translator.tokenizers, self.translator.length_profile
        split = None
        if self.splits:
            split = split_requests(
                line_requests, tokenizer=tokenizers.source, search=self.search, length_profile=length_profile
            )
        requests = split.requests if split else line_requests
        translations = self.translator.stream(
            requests,
            search=self.search,
            nbest=self.nbest if self.channel is None else self.search.beam,
            options=self.options,
            first=lines[0].number - 1,
        )
        if self.channel is not None:
            translations = self._rerank(list(translations), [request.text for request in requests], self.channel)
        if split is not None:
            translations = split.joined(translations, tokenizers=tokenizers)
        sources = [request.text for request in line_requests]
        return (TranslatedLine(*fields) for fields in zip(lines, sources, translations, strict=True))

    def _rerank(
        self, translations: Sequence[Translation], sources: Sequence[str], channel: Channel
    ) -> Iterator[Translation]:
        if channel.direction.is_doubtful(translations, sources):
            self.warn(WRONG_DIRECTION)
        reranked = rerank(translations, sources, reverse=channel.reverse, language=channel.language, search=self.search)
        return (translation._replace(candidates=translation.candidates[: self.nbest]) for translation in reranked)
