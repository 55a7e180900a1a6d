"""The noisy channel: n-best lists ranked again by a reverse model and a language model (Yee et al. 2019)."""

from collections.abc import Iterator, Sequence

from calque.search.settings import SearchConfig
from calque.translator.answers import Candidate, Translation
from calque.translator.translating import Translator


def ranked_again(
    translations: Sequence[Translation],
    sources: Sequence[str],
    *,
    reverse: Translator,
    language: Translator | None,
    search: SearchConfig,
) -> Iterator[Translation]:
    """Each translation's candidates by log P(y|x) + λ log P(x|y) + μ log P(y), which is their new score.

    What was cut stays behind what was finished, and last what has not said all that it must. An empty source has one
    translation, and nobody is asked about it; an empty translation pays as every other.
    """
    rows = [
        (source, candidate.text)
        for translation, source in zip(translations, sources, strict=True)
        for candidate in translation.candidates
        if source.strip()
    ]
    texts = [text for _, text in rows]
    channel = iter(reverse.score(texts, [source for source, _ in rows]))
    prior = iter(language.score(texts, texts)) if language is not None else None
    for translation, source in zip(translations, sources, strict=True):
        scored: list[Candidate] = []
        for candidate in translation.candidates:
            score = candidate.log_prob
            if source.strip():
                score += search.channel_weight * next(channel).log_prob
                score += search.prior_weight * next(prior).log_prob if prior is not None else 0.0
            scored.append(candidate._replace(score=score))
        yield translation._replace(candidates=sorted(scored, key=lambda each: (each.cut, each.lacking, -each.score)))
