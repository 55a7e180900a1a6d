"""Minimum risk against the enumeration of all outputs of a model."""

from itertools import product

import pytest
import torch
from sacrebleu import sentence_bleu, sentence_chrf
from tests.conftest import FAMILIES
from tests.unit.objectives.objects import SHAPES, gradients, make_batch, make_model, translation_loss

from calque.config import check
from calque.data.buckets import Size
from calque.errors import ConfigError
from calque.objectives.minimum_risk import (
    MinimumRiskConfig,
    draw_candidates,
    expected_risk,
    minimum_risk_loss,
    pad_candidates,
    sequence_log_probs,
    text_risk,
)
from calque.objectives.objective import Objective, ObjectiveConfig
from calque.text import BOS, EOS, PAD, UNK, WordsConfig, WordsTokenizer

SOURCES = [([4, 5], [4, 3]), ([5, 5, 3], [5]), ([3], [3, 4])]
WORDS = [UNK, 4, 5]  # a vocabulary of 6 without its marks
EVERYTHING = [sentence for size in range(3) for sentence in product(WORDS, repeat=size)]


def overlap(candidate, reference) -> float:
    """A made-up risk, different for most sentences."""
    same = sum(word == true for word, true in zip(candidate, reference, strict=False))
    return 1 - same / (1 + max(len(candidate), len(reference))) + 0.01 * sum(candidate)


def plain_log_prob(model, source: list[int], sentence) -> torch.Tensor:
    """log P(y, end | x), step by step."""
    batch = make_batch(Size(1, (len(source) + 1, 1)), pairs=[(source, [])])
    context = model.decoder.prepare(model.encoder(batch.source))
    state, total = model.decoder.start(context), torch.zeros((), dtype=torch.float64)
    for token, word in zip([BOS, *sentence], [*sentence, EOS], strict=True):
        output, state = model.decoder(torch.tensor([[token]]), state, context)
        total = total + model.output.log_probs(output.hidden)[0, 0, word]
    return total


@pytest.mark.parametrize(("family", "sharpness"), list(zip(FAMILIES, [1.0, 0.3, 1.0, 0.3, 0.01], strict=True)))
def test_risk_and_gradient_equal_enumeration(family: str, sharpness: float) -> None:
    model, batch = make_model(family, size=6), make_batch(Size(3, (4, 3)), pairs=SOURCES)
    risks = [[overlap(candidate, reference) for candidate in EVERYTHING] for _, reference in SOURCES]
    candidates = pad_candidates([EVERYTHING] * len(SOURCES), risks, like=torch.zeros((), dtype=torch.float64))
    log_probs = sequence_log_probs(model, model.prepare(batch.source), batch.source.values, candidates)
    expected_risks = expected_risk(log_probs, candidates.risks, candidates.mask, sharpness=sharpness)
    slopes = gradients(model, expected_risks.sum())
    total: torch.Tensor | float = 0.0
    score: dict[str, torch.Tensor] = {}  # Σ α Q (risk − R) ∂ log P
    for row, (source, _) in enumerate(SOURCES):
        plain_log_probs = [plain_log_prob(model, source, candidate) for candidate in EVERYTHING]
        weights = [(sharpness * log_prob).exp() for log_prob in plain_log_probs]
        shares = [weight / torch.stack(weights).sum() for weight in weights]
        risk = torch.stack([share * cost for share, cost in zip(shares, risks[row], strict=True)]).sum()
        assert expected_risks[row].item() == pytest.approx(risk.item(), abs=1e-9)
        total = total + risk
        terms = zip(shares, risks[row], plain_log_probs, strict=True)
        surrogate = torch.stack(
            [sharpness * share.detach() * (cost - risk.detach()) * log_prob for share, cost, log_prob in terms]
        ).sum()
        for name, gradient in gradients(model, surrogate).items():
            score[name] = score.get(name, torch.zeros_like(gradient)) + gradient
    assert isinstance(total, torch.Tensor)
    expected = gradients(model, total)
    for name in expected:
        assert torch.allclose(slopes[name], expected[name], rtol=0, atol=1e-9)
        assert torch.allclose(slopes[name], score[name], rtol=0, atol=1e-9)
    assert sum(slope.abs().sum().item() for slope in slopes.values()) > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_with_default_settings_the_risk_matters_beside_cross_entropy(family: str) -> None:
    """Its gradient is 2 to 11 % of cross-entropy's here, and 0.1 to 0.3 % with the paper's sharpness."""
    model, batch = make_model(family, size=6), make_batch(Size(3, (4, 3)), pairs=SOURCES)

    def norm(weight: float) -> float:
        torch.manual_seed(0)
        config = MinimumRiskConfig(weight=weight)
        loss, _ = minimum_risk_loss(model, batch, config=config, risk=overlap, smoothing=0.0)
        return sum(slope.square().sum().item() for slope in gradients(model, loss.objective).values()) ** 0.5

    assert norm(1.0) > 0.01 * norm(1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_with_all_candidates_sampled_the_loss_is_that_of_enumeration(family: str) -> None:
    """Short sentences and many samples: the candidates include all sentences of up to one word."""
    model, batch = make_model(family, size=6), make_batch(Size(2, (3, 1)), pairs=[([4, 5], []), ([3], [])])
    with torch.no_grad():
        model.output.weight.mul_(0.1)
        model.output.bias.zero_()
        model.output.bias[EOS] = 6.0  # long sentences are rare
    config = MinimumRiskConfig(weight=0.25, samples=4000, sharpness=0.5)
    torch.manual_seed(0)
    candidates = draw_candidates(model, batch, config=config, risk=overlap)
    count = candidates.mask.sum(dim=1).tolist()
    assert min(count) >= 4  # the empty sentence and each of the three words at least
    torch.manual_seed(0)
    loss, _ = minimum_risk_loss(model, batch, config=config, risk=overlap, smoothing=0.1)
    cross_entropy = translation_loss(model, batch, smoothing=0.1)
    risk = 0.0
    for row, source in enumerate(([4, 5], [3])):
        sentences = [
            tuple(id for id in ids if id not in (PAD, EOS)) for ids in candidates.outputs[row, : count[row]].tolist()
        ]
        assert len(set(sentences)) == len(sentences)
        assert {(), (UNK,), (4,), (5,)} <= set(sentences)
        weights = [(0.5 * plain_log_prob(model, source, sentence)).exp().item() for sentence in sentences]
        costs = [overlap(sentence, ()) for sentence in sentences]
        risk += sum(share * cost for share, cost in zip(weights, costs, strict=True)) / sum(weights)
    assert loss.objective.item() == pytest.approx(0.75 * cross_entropy.objective.item() + 0.25 * risk, abs=1e-9)
    assert loss.cross_entropy.item() == pytest.approx(cross_entropy.cross_entropy.item(), abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("reference", [True, False])
def test_candidates_are_distinct_and_include_the_reference_if_configured(family: str, reference: bool) -> None:
    model, batch = make_model(family).train(), make_batch(SHAPES[1])
    config = MinimumRiskConfig(samples=6, reference=reference)
    torch.manual_seed(1)
    candidates = draw_candidates(model, batch, config=config, risk=overlap)
    torch.manual_seed(1)
    again = draw_candidates(model, batch, config=config, risk=overlap)
    assert model.training
    assert all(map(torch.equal, candidates, again))
    torch.manual_seed(1)
    without_dropout = draw_candidates(model.eval(), batch, config=config, risk=overlap)
    assert all(map(torch.equal, candidates, without_dropout))
    for row, target in enumerate([[7, 4], [6, 6, 6, 4, 5], [4], [5, 5, 7], [], [], []]):
        padded = [tuple(ids) for ids in candidates.outputs[row][candidates.mask[row]].tolist()]
        assert len(set(padded)) == len(padded) <= 6 + reference
        sentences = [[id for id in ids if id != PAD] for ids in padded]
        assert all(sentence[-1] == EOS for sentence in sentences)
        assert max(map(len, sentences)) <= max(1.5 * (len(target) + 1) + 1, 0) + 6
        if reference:
            assert sentences[0] == [*target, EOS]
        assert candidates.inputs[row, 0].tolist()[: len(sentences[0])] == [BOS, *sentences[0][:-1]]


def test_padded_rows_cost_nothing() -> None:
    model = make_model("transformer")
    config = MinimumRiskConfig(samples=3, weight=1.0, sharpness=1.0)
    losses = []
    for shape in (Size(1, (4, 3)), Size(3, (9, 8))):
        batch = make_batch(shape, pairs=[([4, 5, 6], [7, 4])])
        torch.manual_seed(2)
        candidates = draw_candidates(model, batch, config=config, risk=overlap)
        log_probs = sequence_log_probs(model, model.prepare(batch.source), batch.source.values, candidates)
        risks = expected_risk(log_probs, candidates.risks, candidates.mask, sharpness=1.0)
        torch.manual_seed(2)
        loss, _ = minimum_risk_loss(model, batch, config=config, risk=overlap, smoothing=0.0)
        assert loss.objective.item() == pytest.approx(3 * risks[0].item(), abs=1e-9)
        losses.append(risks.isfinite().all())
    assert all(losses)


def test_the_risk_of_text_is_one_minus_the_metric() -> None:
    tokenizer = WordsTokenizer.train(WordsConfig(), lines=["a small red dog runs home ."])
    reference = tuple(tokenizer.encode("a small red dog runs home ."))
    worse, worst = (tuple(tokenizer.encode(text)) for text in ("a small red dog .", "home home"))
    for metric in ("bleu", "chrf"):
        risk = text_risk(MinimumRiskConfig(metric=metric), tokenizer=tokenizer)
        assert risk(reference, reference) == 0
        assert 0 < risk(worse, reference) < risk(worst, reference) <= 1
        assert 0 < risk((), reference) <= 1
        beyond = len(tokenizer.vocabulary)
        unseen = (*reference[:3], beyond + 1, *reference[3:])  # a word that can only be copied
        assert risk(unseen, unseen) == 0
        assert 0 < risk((*reference[:3], beyond, *reference[3:]), unseen) < 1


def test_the_risk_is_one_minus_the_score_of_sacrebleu_with_the_configured_metric() -> None:
    tokenizer = WordsTokenizer.train(WordsConfig(), lines=["他在上海有三本书。 他在北京有两本书。 他有书。"])
    candidate, reference = "他在北京有两本书。 他有书。", "他在上海有三本书。 他有书。"
    pair = tuple(tokenizer.encode(candidate)), tuple(tokenizer.encode(reference))
    expected = {"13a": sentence_bleu, "char": sentence_bleu, "chrf": sentence_chrf}
    risks = {
        "13a": text_risk(MinimumRiskConfig(), tokenizer=tokenizer)(*pair),
        "char": text_risk(MinimumRiskConfig(splitting="char"), tokenizer=tokenizer)(*pair),
        "chrf": text_risk(MinimumRiskConfig(metric="chrf"), tokenizer=tokenizer)(*pair),
    }
    for name, score in expected.items():
        options = {} if name == "chrf" else {"tokenize": name}
        assert risks[name] == pytest.approx(1 - score(candidate, [reference], **options).score / 100, abs=1e-9)
    assert len({*risks.values()}) == 3


def test_an_objective_needs_the_tokenizer_and_mixes_by_its_weight() -> None:
    tokenizer = WordsTokenizer.train(WordsConfig(), lines=["a b c d"])
    model, batch = make_model("luong"), make_batch()
    config = check(ObjectiveConfig, {"method": {"kind": "minimum-risk", "samples": 3, "weight": 0.4}}, origin="test")
    with pytest.raises(ConfigError, match="tokenizer"):
        Objective(config, smoothing=0.1)
    torch.manual_seed(4)
    loss = Objective(config, smoothing=0.1, tokenizer=tokenizer)(model, batch, step=1)
    cross_entropy = translation_loss(model, batch, smoothing=0.1)
    risk = (loss.objective.item() - 0.6 * cross_entropy.objective.item()) / 0.4
    assert 0 < risk < batch.weight
    assert any(slope.abs().sum() > 0 for slope in gradients(model, loss.objective).values())


@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_training_reduces_the_expected_risk(family: str) -> None:
    """Estimated by samples, before and after."""
    model, batch = make_model(family, size=6), make_batch(Size(3, (4, 3)), pairs=SOURCES)

    @torch.no_grad()
    def measured() -> float:
        torch.manual_seed(99)
        many = MinimumRiskConfig(samples=300, reference=False)
        candidates = draw_candidates(model, batch, config=many, risk=overlap)
        log_probs = sequence_log_probs(model, model.prepare(batch.source), batch.source.values, candidates)
        return expected_risk(log_probs, candidates.risks, candidates.mask, sharpness=1.0).mean().item()

    before = measured()
    config = MinimumRiskConfig(weight=1.0, samples=15, sharpness=1.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(25):
        torch.manual_seed(step)
        loss, _ = minimum_risk_loss(model, batch, config=config, risk=overlap, smoothing=0.0)
        optimiser.zero_grad()
        loss.objective.backward()
        optimiser.step()
    best = sum(overlap(reference, reference) for _, reference in SOURCES) / len(SOURCES)
    assert measured() - best < 0.6 * (before - best)
