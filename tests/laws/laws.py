"""The laws as functions that raise if a model violates them; used by the tests of all models and of planted bugs."""

import itertools

import torch
from torch.nn import functional as F

from calque.layers.embedding import UNKNOWN
from calque.models.model import Context, Model
from calque.search.beam import BestK, Goal, beam_search
from calque.search.ensemble import ensemble
from calque.search.greedy import greedy_search
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis, Limits, Marks, StepOutput
from calque.tensors import map_rows, select_rows
from tests.laws import equations
from tests.laws.models import BEAMS, SENTENCES, SIZES, SOURCE, TARGET, source, target

MARKS = Marks(start=1, end=2, never=(0, 1))


def close(actual, expected, *, tolerance):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def read(model: Model, tokens, state, context):
    return model.read(tokens, state, context, attention=True)


def begin(model: Model, *, seed=0):
    """The context of the source sentences and the state before the first token."""
    context = model.prepare(source(seed))
    return context, model.start(context)


def repeat_for_beams(state):
    """The state with BEAMS rows per sentence."""
    return select_rows(state, torch.arange(SENTENCES).repeat_interleave(BEAMS))


def chunk(model: Model, *, tolerance: float) -> None:
    """1. Any split of the target into chunks gives the same hidden states, attention and final state."""
    context, start = begin(model)
    tokens = target()
    whole, final = read(model, tokens, start, context)
    for cuts in itertools.chain.from_iterable(itertools.combinations(range(1, TARGET), n) for n in range(1, TARGET)):
        parts, state = [], start
        for first, last in itertools.pairwise((0, *cuts, TARGET)):
            output, state = read(model, tokens[:, first:last], state, context)
            parts.append(output)
        close(torch.cat([part.hidden for part in parts], 1), whole.hidden, tolerance=tolerance)
        if whole.attention is not None:
            close(torch.cat([part.attention for part in parts], 1), whole.attention, tolerance=tolerance)
        if whole.gate is not None:
            close(torch.cat([part.gate for part in parts], 1), whole.gate, tolerance=tolerance)
        close(flat(state), flat(final), tolerance=tolerance)


def flat(tree):
    """All tensors of a tree, flattened and concatenated."""
    tensors = []
    map_rows(lambda tensor: tensors.append(tensor.double().flatten()) or tensor, tree)
    return torch.cat(tensors)


def padding(model: Model, *, tolerance: float) -> None:
    """2. Neither the values nor the amount of padding has an effect."""
    clean, tokens = source(), target()
    is_token = torch.arange(SOURCE) < clean.lengths[:, None]  # computed here, as the tested mask may be wrong
    garbage = torch.where(is_token, clean.values, (clean.values + 5) % SIZES.source)
    longer = torch.cat([garbage, torch.full((SENTENCES, 3), 4)], dim=1)
    expected = model(clean, tokens).hidden
    close(model(clean._replace(values=garbage), tokens).hidden, expected, tolerance=tolerance)
    close(model(clean._replace(values=longer), tokens).hidden, expected, tolerance=tolerance)
    memory = model.encode(clean)
    dirty = memory._replace(values=torch.where(is_token[..., None], memory.values, 7.7))
    for variant in (memory, dirty):
        context = Context(model.decoder.prepare(variant), clean.values)
        output, _ = read(model, tokens, model.start(context), context)
        close(output.hidden, expected, tolerance=tolerance)
        if output.attention is not None:
            assert not output.attention.masked_select(~is_token[:, None].expand_as(output.attention)).any()
            total = output.attention.sum(-1)
            assert ((total > 0) & (total < 1 + tolerance)).all()
            if not dampened(model):
                close(total, torch.ones_like(total), tolerance=tolerance)


def dampened(model: Model) -> bool:
    """Whether attention is multiplied by a Gaussian, so that its weights do not sum to 1 (Luong 2015, eq. 10)."""
    attention = getattr(model.decoder, "attention", None)
    return attention is not None and attention.config.reach == "local-p"


def row(model: Model, *, tolerance: float) -> None:
    """3. Selecting rows commutes with reading, also between hypotheses with different prefixes."""
    context, start = begin(model)
    first, second = target(1, rows=SENTENCES * BEAMS), target(2, rows=SENTENCES * BEAMS)
    _, state = read(model, first, repeat_for_beams(start), context)
    order = torch.tensor([2, 2, 0, 3, 5, 4, 4, 7, 11, 8, 9, 9])  # rows stay within their sentence
    selected_first, _ = read(model, second[order], select_rows(state, order), context)
    selected_after, _ = read(model, second, state, context)
    close(selected_first.hidden, selected_after.hidden[order], tolerance=tolerance)


def sharing(model: Model, *, tolerance: float) -> None:
    """4. Sharing a sentence's memory between its hypotheses equals one memory per hypothesis."""
    context, start = begin(model)
    tokens = target(3, rows=SENTENCES * BEAMS)
    shared, _ = read(model, tokens, repeat_for_beams(start), context)
    tiled, _ = read(model, tokens, repeat_for_beams(start), repeat_for_beams(context))
    close(shared.hidden, tiled.hidden, tolerance=tolerance)


def compaction(model: Model, *, tolerance: float) -> None:
    """5. Removing finished sentences does not change the others."""
    context, start = begin(model)
    first, second = target(4, rows=SENTENCES * BEAMS), target(5, rows=SENTENCES * BEAMS)
    _, state = read(model, first, repeat_for_beams(start), context)
    all_rows, _ = read(model, second, state, context)
    survivors = torch.tensor([2, 0])
    rows = (survivors[:, None] * BEAMS + torch.arange(BEAMS)).flatten()
    fewer, _ = read(model, second[rows], select_rows(state, rows), select_rows(context, survivors))
    close(fewer.hidden, all_rows.hidden[rows], tolerance=tolerance)


def prefixes(model: Model, *, tolerance: float) -> None:
    """Prefixes of different length can share a batch, whatever fills the space before the shorter ones."""
    context, start = begin(model)
    first, second = target(6), target(7, size=3)
    states, alone = [], []
    for sentence, size in enumerate([2, TARGET, 0]):
        row = torch.tensor([sentence])
        sentence_context, state = select_rows(context, row), select_rows(start, row)
        if size:
            _, state = read(model, first[row, :size], state, sentence_context)
        states.append(state)
        alone.append(read(model, second[row], state, sentence_context)[0].hidden)
    together, _ = read(model, second, join(states), context)
    close(together.hidden, torch.cat(alone), tolerance=tolerance)


def join(trees):
    """The rows of all trees in one tree; shorter prefixes are padded on the left with arbitrary values."""
    first = trees[0]
    if first is None:
        return None
    if isinstance(first, torch.Tensor):
        if first.dim() == 4:  # keys and values, [N,H,P,d]
            longest = max(tree.shape[2] for tree in trees)
            trees = [F.pad(tree, (0, 0, longest - tree.shape[2], 0), value=7.7) for tree in trees]
        return torch.cat(trees)
    parts = [join(list(branches)) for branches in zip(*trees, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def step_of(model: Model):
    """The model as a step for search."""

    def step(tokens, state, context):
        output, state = model.read(tokens[:, None], state, context)
        return StepOutput(model.log_probs(output, context)[:, -1]), state

    return step


def recomputing_step(model: Model):
    """The same without a cache: its state is the prefix, which is read from the start at every step."""

    def step(tokens, prefix, context):
        prefix = torch.cat([prefix, tokens[:, None]], dim=1)
        sentences = first_rows(context)
        start = model.start(context)
        state = select_rows(start, torch.arange(sentences).repeat_interleave(len(tokens) // sentences))
        output, _ = model.read(prefix, state, context)
        return StepOutput(model.log_probs(output, context)[:, -1]), prefix

    return step


def first_rows(tree) -> int:
    while not isinstance(tree, torch.Tensor):
        tree = tree[0]
    return tree.shape[0]


def limits() -> Limits:
    """Different for each sentence; none may end before its beams have been reordered."""
    return Limits(torch.tensor([7, 4, 6]), torch.tensor([3, 2, 4]))


def decode(step, state, context, *, beams=BEAMS, nbest=BEAMS, alpha=0.7):
    return beam_search(
        step,
        state,
        context,
        expansion=BestK(beams),
        goal=Goal(Scoring(alpha), nbest),
        limits=limits(),
        marks=MARKS,
        source_lengths=source().lengths,
    )


def same(actual, expected, *, tolerance: float) -> None:
    """The same hypotheses, with the same scores."""
    for hypotheses, expected_hypotheses in zip(actual, expected, strict=True):
        assert [hypothesis.tokens for hypothesis in hypotheses] == [
            hypothesis.tokens for hypothesis in expected_hypotheses
        ]
        close(
            torch.tensor([hypothesis.score for hypothesis in hypotheses], dtype=torch.float64),
            torch.tensor([hypothesis.score for hypothesis in expected_hypotheses], dtype=torch.float64),
            tolerance=tolerance,
        )


def search(model: Model, *, tolerance: float) -> None:
    """6. Search with cached states equals search that recomputes every prefix; likewise greedy search.

    Also, the log-probability of each hypothesis equals that of the whole sequence read at once: both searches could
    agree on states of the wrong hypotheses.
    """
    context, start = begin(model)
    prefix = torch.zeros(SENTENCES, 0, dtype=torch.long)
    results = decode(step_of(model), start, context)
    same(results, decode(recomputing_step(model), prefix, context), tolerance=tolerance)
    for sentence, hypotheses in enumerate(results):
        log_probs = torch.tensor([hypothesis.log_prob for hypothesis in hypotheses], dtype=torch.float64)
        rescored = [
            log_prob(model, hypothesis, row=torch.tensor([sentence]), context=context) for hypothesis in hypotheses
        ]
        close(torch.stack(rescored), log_probs, tolerance=tolerance)
    greedy = greedy_search(step_of(model), start, context, limits=limits(), marks=MARKS)
    recomputed = greedy_search(recomputing_step(model), prefix, context, limits=limits(), marks=MARKS)
    same(greedy, recomputed, tolerance=tolerance)
    same(greedy, decode(step_of(model), start, context, beams=1, nbest=1, alpha=0.0), tolerance=tolerance)


def log_prob(model: Model, hypothesis: Hypothesis, *, row, context) -> torch.Tensor:
    """The log-probability of one hypothesis of the sentence in that row, read at once."""
    sentence_context = select_rows(context, row)
    tokens = torch.tensor([*hypothesis.tokens] if hypothesis.cut else [*hypothesis.tokens, MARKS.end])
    inputs = torch.tensor([[MARKS.start, *tokens[:-1].tolist()]])
    output, _ = model.read(inputs, model.start(sentence_context), sentence_context)
    return model.log_probs(output, sentence_context)[0].gather(1, tokens[:, None]).sum().double()


def self_ensemble(model: Model, *, tolerance: float) -> None:
    """7. A model ensembled with itself is itself."""
    context, start = begin(model)
    alone = decode(step_of(model), start, context)
    together = decode(ensemble([step_of(model)] * 2), (start, start), (context, context))
    same(alone, together, tolerance=tolerance)


def batch(model: Model, *, tolerance: float) -> None:
    """10. A sentence's hypotheses do not depend on the rest of the batch or on padding."""
    context, start = begin(model)
    together = decode(step_of(model), start, context)
    all_rows = source()
    for sentence in range(SENTENCES):
        size = int(all_rows.lengths[sentence])
        alone = all_rows._replace(values=all_rows.values[[sentence], :size], lengths=all_rows.lengths[[sentence]])
        sentence_context = model.prepare(alone)
        sentence_limits = Limits(*(part[[sentence]] for part in limits()))
        results = beam_search(
            step_of(model),
            model.start(sentence_context),
            sentence_context,
            expansion=BestK(BEAMS),
            goal=Goal(Scoring(0.7), BEAMS),
            limits=sentence_limits,
            marks=MARKS,
            source_lengths=alone.lengths,
        )
        same(results, [together[sentence]], tolerance=tolerance)


def probabilities(model: Model, *, tolerance: float) -> None:
    """The probabilities of the next token sum to 1, including copied words."""
    context, start = begin(model)
    output, _ = read(model, target(), start, context)
    total = model.log_probs(output, context).exp().sum(dim=-1)
    close(total, torch.ones_like(total), tolerance=tolerance)


def fidelity(model: Model, *, tolerance: float) -> None:
    """9. A model computes its paper's equations, implemented a second time in tests/laws/equations."""
    context, start = begin(model)
    sentences, tokens = source(), target()
    output, _ = read(model, tokens, start, context)
    for sentence, size in enumerate(sentences.lengths.tolist()):
        vocabulary = model.sizes.source  # out-of-vocabulary words are read as unknown
        row = [token if token < vocabulary else UNKNOWN for token in sentences.values[sentence, :size].tolist()]
        expected = equations.read(model, row, tokens[sentence].tolist())
        close(output.hidden[sentence], expected.hidden, tolerance=tolerance)
        assert (output.attention is None) == (expected.attention is None)
        if expected.attention is not None:
            close(output.attention[sentence, :, :size], expected.attention, tolerance=tolerance)
        assert (output.gate is None) == (expected.gate is None)
        if expected.gate is not None:
            close(output.gate[sentence], expected.gate, tolerance=tolerance)


LAWS = {
    law.__name__: law
    for law in (
        *(chunk, padding, row, sharing, compaction, prefixes),
        *(search, self_ensemble, probabilities, fidelity, batch),
    )
}
assert SOURCE != TARGET
