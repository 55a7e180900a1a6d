"""How beam search found an answer: its tree, the hypotheses that ended, and the results of narrower beams."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from calque.inspection.beam_tree import ROOT, BeamRecorder, BeamTree, ScoreParts
from calque.search.decode import scoring_of
from calque.search.settings import SearchConfig
from calque.text import EOS


class Found(NamedTuple):
    """The answer of a search, as ids and as text."""

    ids: list[int]  # with the end mark unless it was truncated
    text: str
    is_cut: bool
    log_prob: float
    score: float


class NarrowerBeam(NamedTuple):
    """The outcome of a narrower beam: whether it finds the same answer and, if not, at which piece it loses it."""

    beam: int
    finds: bool  # this answer is its best
    lost_at: int | None  # the position, from 1, of the first piece that was not kept
    is_stopped: bool  # that piece was not dropped: search had stopped before it
    text: str  # what this search finds
    score: float


class EndedHypothesis(NamedTuple):
    """A hypothesis that ended during search."""

    text: str
    log_prob: float
    score: ScoreParts


class BeamView(NamedTuple):
    """The beam tree of an answer, all hypotheses that ended, and what narrower beams find."""

    width: int
    nbest: int
    tree: BeamTree
    pieces: Mapping[int, str]  # of the candidates' tokens
    answer: list[int]  # ids of the candidates that lead to the answer
    ended: list[EndedHypothesis]  # highest score first
    narrower: list[NarrowerBeam]


class Searched(NamedTuple):
    """The result of a search with one beam size."""

    beam: int
    found: Found
    tree: BeamTree

    def outcome(self, ids: Sequence[int]) -> NarrowerBeam:
        """Whether this search found the answer with these token ids and, if not, at which piece it lost the answer."""
        finds = self.found.ids == list(ids)
        lost_at = None if finds else self.tree.lost_at(ids)
        is_stopped = lost_at is not None and lost_at > len(self.tree.steps)
        return NarrowerBeam(self.beam, finds, lost_at, is_stopped, self.found.text, self.found.score)


Search = Callable[[SearchConfig, BeamRecorder], Found]
"""A function that searches with the given settings while the recorder observes."""


def search_with_beams(search: SearchConfig, run: Search, *, nbest: int = 1, prompt: int = 0) -> list[Searched]:
    """The results of a search and of the same search with every narrower beam; trees begin after `prompt` tokens.

    The number of groups stays the same if it divides the beam size; otherwise there is one group.
    """
    searches = [_searched(search, run, nbest=nbest, prompt=prompt)]
    for beam in range(1, search.beam):
        groups = search.groups if beam % search.groups == 0 else 1
        narrow = search.model_copy(update={"beam": beam, "groups": groups})
        searches.append(_searched(narrow, run, nbest=1, prompt=prompt))
    return searches


def _searched(search: SearchConfig, run: Search, *, nbest: int, prompt: int) -> Searched:
    recorder = BeamRecorder(
        scoring_of(search),
        nbest=nbest,
        end=EOS,
        stops_exactly=search.stopping == "exact",
        groups=search.groups,
        diversity=search.diversity,
    )
    found = run(search, recorder)
    return Searched(search.beam, found, recorder.tree.after(prompt))


def beam_view(
    searches: Sequence[Searched],
    *,
    nbest: int,
    pieces: Callable[[Sequence[int]], list[str]],
    text: Callable[[Sequence[int]], str],
) -> BeamView:
    """The beam tree, ended hypotheses and answer of the first search, compared with the answers of the other searches.

    The other searches have narrower beams. `pieces` maps ids to pieces. `text` maps the ids after the prompt, without
    end mark, to text.
    """
    beam, found, tree = searches[0]
    tokens = sorted({candidate.token for step in tree.steps for candidate in step.candidates})
    names = dict(zip(tokens, pieces(tokens), strict=True))
    ended = sorted(_ended(tree, text=text), key=lambda hypothesis: -hypothesis.score.total)
    narrower = [search.outcome(found.ids) for search in searches[1:]]
    return BeamView(beam, nbest, tree, names, tree.path(found.ids), ended, narrower)


def _ended(tree: BeamTree, *, text: Callable[[Sequence[int]], str]) -> Iterator[EndedHypothesis]:
    """Yields every hypothesis in the beam tree that ended during search, in the order in which they ended."""
    tokens: dict[int, list[int]] = {ROOT: []}
    for step in tree.steps:
        for candidate in step.candidates:
            if candidate.score is not None:
                yield EndedHypothesis(text(tokens[candidate.parent]), candidate.log_prob, candidate.score)
        tokens |= {candidate.id: [*tokens[candidate.parent], candidate.token] for candidate in step.candidates}
