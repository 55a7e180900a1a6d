"""The laws themselves, as functions that raise when a model breaks them; tests run them, and so do planted bugs."""

import itertools

import torch
from torch.nn import functional as F

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


def close(one, other, *, tolerance):
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def read(model: Model, tokens, state, context):
    return model.read(tokens, state, context, attention=True)


def begin(model: Model, *, seed=0):
    """The context of the list's source sentences and the state before any token."""
    context = model.prepare(source(seed))
    return context, model.start(context)


def beams_of(state):
    """The state with BEAMS rows a sentence."""
    return select_rows(state, torch.arange(SENTENCES).repeat_interleave(BEAMS))


def chunk(model: Model, *, tolerance: float) -> None:
    """1. Any split of the target gives the same hidden, attention and state."""
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
    """Every tensor of a tree in one row."""
    found = []
    map_rows(lambda tensor: found.append(tensor.double().flatten()) or tensor, tree)
    return torch.cat(found)


def padding(model: Model, *, tolerance: float) -> None:
    """2. Garbage behind a mask changes nothing, and neither does more padding."""
    clean, tokens = source(), target()
    true = torch.arange(SOURCE) < clean.lengths[:, None]  # written out: a wrong mask must not hide itself
    garbage = torch.where(true, clean.values, (clean.values + 5) % SIZES.source)
    longer = torch.cat([garbage, torch.full((SENTENCES, 3), 4)], dim=1)
    expected = model(clean, tokens).hidden
    close(model(clean._replace(values=garbage), tokens).hidden, expected, tolerance=tolerance)
    close(model(clean._replace(values=longer), tokens).hidden, expected, tolerance=tolerance)
    memory = model.encode(clean)
    dirty = memory._replace(values=torch.where(true[..., None], memory.values, 7.7))
    for one in (memory, dirty):
        context = Context(model.decoder.prepare(one), clean.values)
        output, _ = read(model, tokens, model.start(context), context)
        close(output.hidden, expected, tolerance=tolerance)
        if output.attention is not None:
            assert not output.attention.masked_select(~true[:, None].expand_as(output.attention)).any()
            total = output.attention.sum(-1)
            assert ((total > 0) & (total < 1 + tolerance)).all()
            if not dampened(model):
                close(total, torch.ones_like(total), tolerance=tolerance)


def dampened(model: Model) -> bool:
    """Whether attention is multiplied by a bell curve, so that its weights do not add up to 1 (Luong 2015, eq. 10)."""
    attention = getattr(model.decoder, "attention", None)
    return attention is not None and attention.config.reach == "local-p"


def row(model: Model, *, tolerance: float) -> None:
    """3. Selecting rows commutes with reading: rows of different history may change places."""
    context, start = begin(model)
    first, second = target(1, rows=SENTENCES * BEAMS), target(2, rows=SENTENCES * BEAMS)
    _, state = read(model, first, beams_of(start), context)
    within = torch.tensor([2, 2, 0, 3, 5, 4, 4, 7, 11, 8, 9, 9])  # choices stay inside their sentence
    early, _ = read(model, second[within], select_rows(state, within), context)
    late, _ = read(model, second, state, context)
    close(early.hidden, late.hidden[within], tolerance=tolerance)


def sharing(model: Model, *, tolerance: float) -> None:
    """4. A memory shared by a sentence's hypotheses equals a memory for each of them."""
    context, start = begin(model)
    tokens = target(3, rows=SENTENCES * BEAMS)
    shared, _ = read(model, tokens, beams_of(start), context)
    tiled, _ = read(model, tokens, beams_of(start), beams_of(context))
    close(shared.hidden, tiled.hidden, tolerance=tolerance)


def compaction(model: Model, *, tolerance: float) -> None:
    """5. Dropping finished sentences changes no survivor."""
    context, start = begin(model)
    first, second = target(4, rows=SENTENCES * BEAMS), target(5, rows=SENTENCES * BEAMS)
    _, state = read(model, first, beams_of(start), context)
    everyone, _ = read(model, second, state, context)
    survivors = torch.tensor([2, 0])
    rows = (survivors[:, None] * BEAMS + torch.arange(BEAMS)).flatten()
    fewer, _ = read(model, second[rows], select_rows(state, rows), select_rows(context, survivors))
    close(fewer.hidden, everyone.hidden[rows], tolerance=tolerance)


def prefixes(model: Model, *, tolerance: float) -> None:
    """Of the seam, §4: prefixes of different length share a batch, whatever fills the room before the shorter ones."""
    context, start = begin(model)
    first, second = target(6), target(7, size=3)
    states, alone = [], []
    for sentence, size in enumerate([2, TARGET, 0]):
        row = torch.tensor([sentence])
        own, state = select_rows(context, row), select_rows(start, row)
        if size:
            _, state = read(model, first[row, :size], state, own)
        states.append(state)
        alone.append(read(model, second[row], state, own)[0].hidden)
    together, _ = read(model, second, join(states), context)
    close(together.hidden, torch.cat(alone), tolerance=tolerance)


def join(trees):
    """The rows of all trees in one; where one has read less than another, garbage stands before what it has read."""
    first = trees[0]
    if first is None:
        return None
    if isinstance(first, torch.Tensor):
        if first.dim() == 4:  # keys and values, [N,H,P,d]
            longest = max(tree.shape[2] for tree in trees)
            trees = [F.pad(tree, (0, 0, longest - tree.shape[2], 0), value=7.7) for tree in trees]
        return torch.cat(trees)
    parts = [join(list(same)) for same in zip(*trees, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def step_of(model: Model):
    """The model as search sees it."""

    def step(tokens, state, context):
        output, state = model.read(tokens[:, None], state, context)
        return StepOutput(model.log_probs(output, context)[:, -1]), state

    return step


def recomputing_step(model: Model):
    """The same without any cache: its state is the prefix, read from the start at every step."""

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
    """Each sentence has its own, and none may end before its beams have changed places."""
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


def same(one, other, *, tolerance: float) -> None:
    """The same hypotheses, with the same scores."""
    for ours, theirs in zip(one, other, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        close(
            torch.tensor([each.score for each in ours], dtype=torch.float64),
            torch.tensor([each.score for each in theirs], dtype=torch.float64),
            tolerance=tolerance,
        )


def search(model: Model, *, tolerance: float) -> None:
    """6. Search with cached states equals search that reads every prefix again; greedy likewise.

    And each hypothesis is as likely as the model finds it when it reads it whole: the two searches could agree on
    states that belong to other hypotheses.
    """
    context, start = begin(model)
    prefix = torch.zeros(SENTENCES, 0, dtype=torch.long)
    found = decode(step_of(model), start, context)
    same(found, decode(recomputing_step(model), prefix, context), tolerance=tolerance)
    for sentence, hypotheses in enumerate(found):
        claimed = torch.tensor([each.log_prob for each in hypotheses], dtype=torch.float64)
        whole = [log_prob(model, each, row=torch.tensor([sentence]), context=context) for each in hypotheses]
        close(torch.stack(whole), claimed, tolerance=tolerance)
    greedy = greedy_search(step_of(model), start, context, limits=limits(), marks=MARKS)
    again = greedy_search(recomputing_step(model), prefix, context, limits=limits(), marks=MARKS)
    same(greedy, again, tolerance=tolerance)
    same(greedy, decode(step_of(model), start, context, beams=1, nbest=1, alpha=0.0), tolerance=tolerance)


def log_prob(model: Model, hypothesis: Hypothesis, *, row, context) -> torch.Tensor:
    """The log-probability of one hypothesis of the sentence in that row, all of it read at once."""
    own = select_rows(context, row)
    tokens = torch.tensor([*hypothesis.tokens] if hypothesis.cut else [*hypothesis.tokens, MARKS.end])
    inputs = torch.tensor([[MARKS.start, *tokens[:-1].tolist()]])
    output, _ = model.read(inputs, model.start(own), own)
    return model.log_probs(output, own)[0].gather(1, tokens[:, None]).sum().double()


def self_ensemble(model: Model, *, tolerance: float) -> None:
    """7. A model ensembled with itself is itself."""
    context, start = begin(model)
    alone = decode(step_of(model), start, context)
    together = decode(ensemble([step_of(model)] * 2), (start, start), (context, context))
    same(alone, together, tolerance=tolerance)


def batch(model: Model, *, tolerance: float) -> None:
    """10. A sentence's hypotheses do not depend on what else is in the batch, nor on padding."""
    context, start = begin(model)
    together = decode(step_of(model), start, context)
    everyone = source()
    for sentence in range(SENTENCES):
        size = int(everyone.lengths[sentence])
        alone = everyone._replace(values=everyone.values[[sentence], :size], lengths=everyone.lengths[[sentence]])
        own = model.prepare(alone)
        one = Limits(*(part[[sentence]] for part in limits()))
        found = beam_search(
            step_of(model),
            model.start(own),
            own,
            expansion=BestK(BEAMS),
            goal=Goal(Scoring(0.7), BEAMS),
            limits=one,
            marks=MARKS,
            source_lengths=alone.lengths,
        )
        same(found, [together[sentence]], tolerance=tolerance)


def probabilities(model: Model, *, tolerance: float) -> None:
    """What a model says of the next token are probabilities: they add up to 1, copied words included."""
    context, start = begin(model)
    output, _ = read(model, target(), start, context)
    total = model.log_probs(output, context).exp().sum(dim=-1)
    close(total, torch.ones_like(total), tolerance=tolerance)


def fidelity(model: Model, *, tolerance: float) -> None:
    """9. A model computes its paper's equations, written out a second time in tests/laws/equations."""
    context, start = begin(model)
    sentences, tokens = source(), target()
    output, _ = read(model, tokens, start, context)
    for sentence, size in enumerate(sentences.lengths.tolist()):
        known = model.sizes.source  # words outside the vocabulary are read as the unknown one
        row = [token if token < known else model.sizes.unknown for token in sentences.values[sentence, :size].tolist()]
        plain = equations.read(model, row, tokens[sentence].tolist())
        close(output.hidden[sentence], plain.hidden, tolerance=tolerance)
        assert (output.attention is None) == (plain.attention is None)
        if plain.attention is not None:
            close(output.attention[sentence, :, :size], plain.attention, tolerance=tolerance)
        assert (output.gate is None) == (plain.gate is None)
        if plain.gate is not None:
            close(output.gate[sentence], plain.gate, tolerance=tolerance)


LAWS = {
    law.__name__: law
    for law in (
        *(chunk, padding, row, sharing, compaction, prefixes),
        *(search, self_ensemble, probabilities, fidelity, batch),
    )
}
assert SOURCE != TARGET
