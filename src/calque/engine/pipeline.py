"""From lines to their translations, with all that was asked for: what files, pipes and conversations share."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from calque.data.lines import Line
from calque.engine import OutputOptions, Translation, Translator
from calque.engine.constraint_files import Requests
from calque.engine.noisy_channel import Direction, rerank
from calque.engine.splitting import split_requests
from calque.engine.text_generator import TextGenerator
from calque.search.settings import SearchConfig

DOUBT = (
    "--reverse: this model seems to translate as the first one does, not back: a source tells it much of the "
    "translation, and a translation little of the source; train it with --source and --target exchanged"
)


def to_standard_error(text: str) -> None:
    """Results go to standard output, and nothing else."""
    print(text, file=sys.stderr)


class Channel(NamedTuple):
    """Who ranks n-best lists again."""

    reverse: Translator
    language: TextGenerator | None
    direction: Direction


class TranslatedLine(NamedTuple):
    """A line, what the model read of it, and its translation."""

    line: Line
    source: str  # without marks
    translation: Translation


class Pipeline(NamedTuple):
    """How lines are answered."""

    translator: Translator
    search: SearchConfig
    requests: Requests
    options: OutputOptions
    nbest: int
    splits: bool = False  # lines that are too long, into sentences
    channel: Channel | None = None
    warn: Callable[[str], None] = to_standard_error

    def answers(self, lines: Sequence[Line]) -> Iterator[TranslatedLine]:
        """One for each line, in order; lines follow each other in their file."""
        asked = self.requests.of(lines)
        tokenizers, length_profile = self.translator.tokenizers, self.translator.length_profile
        split = None
        if self.splits:
            split = split_requests(
                asked, tokenizer=tokenizers.source, search=self.search, length_profile=length_profile
            )
        given = split.requests if split else asked
        found = self.translator.stream(
            given,
            search=self.search,
            nbest=self.nbest if self.channel is None else self.search.beam,
            options=self.options,
            first=lines[0].number - 1,
        )
        if self.channel is not None:
            found = self._ranked(list(found), [request.text for request in given], self.channel)
        if split is not None:
            found = split.joined(found, tokenizers=tokenizers)
        sources = [request.text for request in asked]
        return (TranslatedLine(*each) for each in zip(lines, sources, found, strict=True))

    def _ranked(
        self, translations: Sequence[Translation], sources: Sequence[str], channel: Channel
    ) -> Iterator[Translation]:
        if channel.direction.is_doubtful(translations, sources):
            self.warn(DOUBT)
        again = rerank(translations, sources, reverse=channel.reverse, language=channel.language, search=self.search)
        return (each._replace(candidates=each.candidates[: self.nbest]) for each in again)
