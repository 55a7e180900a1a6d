"""The hidden Markov tagger TnT (Brants 2000): label trigrams, word probabilities, and suffixes for unknown words.

Its tables are estimated from counts in a tagged corpus (`calque.statistics.tag_tables`), not trained.

Letters: B sentences, T words, Y labels, K kinds of words (2 if capitalised words are counted separately, else 1),
S = K · Y states, E = S + 1 with the sentence boundary, C characters, N nodes of the suffix tree.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.layers.crf import Allowed, BestPaths
from calque.layers.embedding import UNKNOWN
from calque.layers.label_chain import ChainScores, LabelChain
from calque.models.counted import CountedModel, table
from calque.models.inputs import Words
from calque.models.tagger import TaggerSizes

CELLS = 1 << 23  # transitions of a step that are computed together


class HiddenMarkovConfig(Config):
    """A hidden Markov tagger: labels follow an n-gram model, and each word depends only on its label."""

    kind: Literal["hidden-markov"] = "hidden-markov"
    order: int = Field(default=3, ge=1, le=3)
    """3: label trigrams; 2: label bigrams; 1: each word's most frequent label, regardless of its neighbours."""
    capitals: bool = True
    """Count the labels and suffixes of capitalised words separately from those of other words."""
    suffix: int = Field(default=10, ge=0, le=40)
    """The longest suffix, in characters, from which the label of an unknown word is predicted."""
    rare: int = Field(default=10, ge=1)
    """Suffixes are learnt from words that occur at most this often."""
    smoothing: float = Field(default=0.5, gt=0, le=1000)
    """The weight of a known word's suffix, as an equivalent number of occurrences of the word."""


class HiddenMarkovTagger(CountedModel):
    """argmax over labels y of Πₜ P(yₜ | yₜ₋₂, yₜ₋₁) P(xₜ | yₜ), with the interface of a `TaggerModel`.

    All tables are logarithms of probabilities. By Bayes, P(x | y) ∝ P(y | x) / P(y). A known word has its own row of
    P(y | x); an unknown word has the row of its suffix. A *state* is a label together with the kind of the word
    (capitalised or not), which is observed rather than hidden.
    """

    def __init__(self, config: HiddenMarkovConfig, *, sizes: TaggerSizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        self.kinds = 2 if config.capitals else 1
        states = self.kinds * sizes.labels
        order = config.order
        self.transitions = table(torch.zeros((states + 1,) * order))  # log P(state | states before), the boundary last
        self.states = table(torch.zeros((self.kinds, sizes.labels)))  # log P(label, kind)
        self.words = table(torch.zeros((sizes.words, sizes.labels)))  # log P(label | word)
        self.suffixes = table(torch.zeros((self.kinds, sizes.labels)))  # [N,Y], log P(label | suffix)
        self.suffix_keys = table(torch.zeros(0, dtype=torch.long))
        self.is_upper = table(torch.zeros(sizes.characters, dtype=torch.bool))

    def fill(self, tables: Mapping[str, Tensor]) -> None:
        """Sets the tables; floating-point ones are given as probabilities and stored as logarithms."""
        self.take_sizes({name: table.shape for name, table in tables.items()})
        for name, parameter in self.named_parameters():
            table = tables[name]
            parameter.data = (table.log() if parameter.is_floating_point() else table).to(parameter)

    def forward(self, source: Words) -> Tensor:
        """Scores [B,T,S] of states: log P(label | word) − log P(label, kind), or −∞ if the word is of another kind."""
        assert source.characters is not None and source.word_lengths is not None, (
            "this model needs the characters of every word"
        )
        word_lengths = source.word_lengths.to(source.characters.device)
        kinds = torch.zeros_like(source.words)
        if self.kinds > 1:
            kinds = (self.is_upper[source.characters[..., 0]] & (word_lengths > 0)).long()
        known = source.words.masked_fill(source.words >= self.sizes.words, UNKNOWN)
        nodes = self._suffix_nodes(source.characters, word_lengths, kinds)
        is_unknown = known == UNKNOWN
        posteriors = torch.where(is_unknown[..., None], self.suffixes[nodes], self.words[known])
        scores = posteriors - self.states[kinds]
        is_kind = torch.arange(self.kinds, device=kinds.device) == kinds[..., None]  # [B,T,K]
        return scores[..., None, :].where(is_kind[..., None], -torch.inf).flatten(2)

    def losses(self, scores: Tensor, labels: Tensor, lengths: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """−log P(labels | words) [B]; 0 for rows without words."""
        assert not smoothing, "label smoothing does not apply to a model that is estimated from counts"
        is_label = torch.arange(self.sizes.labels, device=scores.device) == labels[..., None]
        given = scores.masked_fill(~is_label.repeat(1, 1, self.kinds), -torch.inf)
        losses = [
            chain.log_partition() - restricted.log_partition()
            for chain, restricted in zip(self._chains(scores, lengths), self._chains(given, lengths), strict=True)
        ]
        return torch.cat(losses)

    def best(self, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None = None) -> Tensor:
        """The most likely labels [B,T] of each sentence, among those that are `allowed`."""
        return self.viterbi(scores, lengths, allowed=allowed).labels

    def viterbi(self, scores: Tensor, lengths: Tensor, *, allowed: Allowed | None = None) -> BestPaths:
        """The most likely labels of each sentence, and their joint log-probability with the words, up to a constant."""
        paths = [chain.viterbi(allowed=allowed) for chain in self._chains(scores, lengths)]
        return BestPaths(torch.cat([path.labels for path in paths]), torch.cat([path.scores for path in paths]))

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The probability of every label of every word, [B,T,Y]; 0 after a sentence's last word."""
        mask = torch.arange(scores.shape[1], device=scores.device) < lengths.to(scores.device)[:, None]
        return self.log_marginals(scores, lengths).exp().masked_fill(~mask[..., None], 0)

    def log_marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The log-probability of every label of every word, [B,T,Y]; 0 after a sentence's last word."""
        return torch.cat([chain.log_marginals() for chain in self._chains(scores, lengths)])

    def chain_scores(self) -> ChainScores:
        """The transition scores between labels, indexed by the kinds of the words (capitalised or not)."""
        labels, kinds, order = self.sizes.labels, self.kinds, self.config.order
        boundary = kinds * labels
        table: Tensor = self.transitions
        if order == 1:
            table = table.expand(len(table), len(table))
        if order < 3:
            start, steps, ends = table[boundary, :-1], table[None, :-1, :-1], table[None, :-1, boundary]
            histories = (1, 1)
        else:
            start = table[boundary, boundary, :-1]
            first, rest = table[boundary, :-1], table[:-1, :-1]  # the last word is the first one, or not
            rest = torch.cat([first.expand(kinds, 1, *first.shape), rest.view(kinds, labels, *first.shape)], dim=1)
            steps, ends = rest.flatten(0, 1)[..., :-1], rest.flatten(0, 1)[..., boundary]
            histories = (kinds, 1 + labels)
        return ChainScores(
            start.view(kinds, labels),
            steps.reshape(*histories, kinds, labels, kinds, labels).permute(0, 2, 4, 1, 3, 5).contiguous(),
            ends.reshape(*histories, kinds, labels).permute(0, 2, 1, 3).contiguous(),
        )

    def label_transitions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities for inspection: of the next label [Y,Y], of the first label [Y], and of the end [Y].

        They are averaged over capitalised and other words and, for trigrams, over the label two words back, weighted
        by frequency.
        """
        kinds, labels, order = self.kinds, self.sizes.labels, self.config.order
        shares = self.states.exp()  # [K,Y]
        table = self.transitions.double().exp()
        start = table[(-1,) * (order - 1)][:-1]
        if order == 3:
            table = torch.einsum("u,uvw->vw", shares.flatten().to(table), table[:-1])
        table = table.expand(kinds * labels + 1, -1)[:-1].view(kinds, labels, -1)
        by_label = (table * (shares / shares.sum(dim=0))[..., None]).sum(dim=0)  # [Y,E]
        joined = by_label[:, :-1].view(labels, kinds, labels).sum(dim=1)
        return joined.log(), start.view(kinds, labels).sum(dim=0).log(), by_label[:, -1].log()

    def take_sizes(self, sizes: Mapping[str, torch.Size]) -> None:
        """Resizes the suffix tree to its size in a saved model; all other sizes follow from the vocabularies."""
        keys = sizes.get("suffix_keys")
        if keys is not None and len(keys) == 1:
            nodes, labels = self.kinds + keys[0], self.sizes.labels
            self.suffix_keys = nn.Parameter(self.suffix_keys.new_empty(keys), requires_grad=False)
            self.suffixes = nn.Parameter(self.suffixes.new_empty((nodes, labels)), requires_grad=False)

    def fault(self) -> str | None:
        """An error message if the tables, as loaded from a file, are invalid; None if they are valid."""
        keys, characters = self.suffix_keys, max(1, self.sizes.characters)
        if len(keys) and not (keys[0] >= 0 and (keys[1:] > keys[:-1]).all()):
            return "suffix_keys: not in ascending order"
        if (keys // characters >= torch.arange(len(keys), device=keys.device) + self.kinds).any():
            return "suffix_keys: a suffix extends one that does not exist"
        tables = {"transitions": self.transitions, "words": self.words, "suffixes": self.suffixes}
        too_high = next((name for name, table in tables.items() if (table > 0).any()), None)
        return None if too_high is None else f"{too_high}: a probability above 1"

    def _suffix_nodes(self, characters: Tensor, lengths: Tensor, kinds: Tensor) -> Tensor:
        """The suffix-tree node [B,T] of each word's longest known suffix, given its characters, length and kind."""
        nodes, is_suffix = kinds, torch.ones_like(kinds, dtype=torch.bool)
        longest = min(self.config.suffix, characters.shape[2])
        for distance in range(1, longest + 1 if len(self.suffix_keys) else 1):
            places = (lengths - distance).clamp(min=0)
            character = characters.gather(2, places[..., None]).squeeze(2)
            keys = nodes * self.sizes.characters + character
            found = torch.searchsorted(self.suffix_keys, keys).clamp(max=len(self.suffix_keys) - 1)
            is_suffix = is_suffix & (lengths >= distance) & (self.suffix_keys[found] == keys)
            nodes = torch.where(is_suffix, found + self.kinds, nodes)
        return nodes

    def _chains(self, scores: Tensor, lengths: Tensor) -> Iterator[LabelChain]:
        """Yields the `LabelChain` of a few sentences at a time, so that memory does not grow with the batch."""
        transitions = self.chain_scores()
        by_kind = scores.view(*scores.shape[:2], self.kinds, self.sizes.labels)
        emissions, kinds = by_kind.amax(dim=2), by_kind.amax(dim=3).argmax(dim=2)
        rows = max(1, CELLS // transitions.steps[0, 0, 0].numel())
        for first in range(0, len(scores), rows):
            part = slice(first, first + rows)
            yield LabelChain(emissions[part], kinds[part], lengths[part], transitions)
