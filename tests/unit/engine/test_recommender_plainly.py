"""What a recommender answers and how it ranks, against its rules written out for one user at a time."""

import random
from typing import Any

import pytest
import torch

from calque.data.store import Store, pack, store_in_memory
from calque.engine.recommender import History, Recommender
from calque.evaluation.ranking import MISSED
from calque.models.recommender import FIRST_ITEM, ItemHistory, RecommenderConfig, RecommenderModel
from calque.tasks.recommendation import RecommendationConfig
from calque.text import UNK
from calque.text.catalogue import Catalogue, learn_catalogue

READ = 4  # items of a history
NAMES = [f"item{number}" for number in range(12)]
NETWORKS: dict[str, dict[str, Any]] = {
    "gru": {"kind": "recurrent", "cell": "gru", "layers": 1, "width": 6, "embedding": 5},
    "timed": {"kind": "time-aware", "layers": 1, "width": 8, "heads": 2, "feed_forward": 12, "buckets": 7},
    "popularity": {"kind": "popularity"},
}


def catalogue() -> Catalogue:
    rows = [NAMES[: 3 + place] for place in range(len(NAMES) - 2)]
    return learn_catalogue(rows, trained=rows, behaviours=[["view", "buy"]])


def recommender(network: str, *, seed: int) -> Recommender:
    torch.manual_seed(seed)
    config, known = RecommenderConfig.model_validate({"network": NETWORKS[network]}), catalogue()
    assert known.behaviours is not None
    model = RecommenderModel(config, vocabulary_size=len(known.items), behaviours=len(known.behaviours)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    model.learn_counts(torch.tensor(known.counts))
    return Recommender(model, known, config=config, task=RecommendationConfig(history=READ))


def users(seed: int, *, count: int = 25) -> list[History]:
    """Users with items that repeat, items outside the catalogue, histories longer and shorter than what is read."""
    generator = random.Random(seed)
    found = []
    for _ in range(count):
        items = generator.choices([*NAMES, "never seen"], k=generator.randint(1, 9))
        times = [sum(generator.choices([0, 1, 5, 900], k=1 + place)) for place in range(len(items))]
        behaviours = generator.choices(["view", "buy"], k=len(items))
        found.append(History(items, sorted(times), behaviours, max(times) + generator.choice([0, 7, 5000])))
    return found


@torch.no_grad()
def plain_scores(model: Recommender, user: History) -> list[float]:
    """The scores of all items for one user: of the latest known items, each predicting at the time of the next."""
    ids = model.catalogue.item_ids(user.items)
    latest = [place for place, id in enumerate(ids) if id != UNK][-READ:]
    if not latest or model.model.network is None:
        shares = torch.tensor(model.catalogue.counts[FIRST_ITEM:]).double() + 1
        return [-torch.inf] * FIRST_ITEM + (shares / shares.sum()).log().tolist()
    times = [int(user.times[place]) for place in latest]
    assert user.now is not None
    history = ItemHistory(
        torch.tensor([[ids[place] for place in latest]]),
        torch.tensor([len(latest)]),
        torch.tensor([times]),
        torch.tensor([[*times[1:], int(user.now)]]),
        torch.tensor([[model.catalogue.behaviour_ids([user.behaviours[place]])[0] for place in latest]]),
    )
    assert model.model.output is not None
    logits = model.model.output.logits(model.model(history)[0, -1])
    logits[:FIRST_ITEM] = -torch.inf
    return logits.log_softmax(dim=0).tolist()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_recommendations_follow_their_rules(network: str, exclude_seen: bool, seed: int) -> None:
    model = recommender(network, seed=seed)
    requests = [*users(seed), History([], now=5)]
    answers = model.recommend(requests, top=5, exclude_seen=exclude_seen)
    for user, answer in zip(requests, answers, strict=True):
        scores = dict(
            zip(model.catalogue.names(range(len(model.catalogue.items))), plain_scores(model, user), strict=True)
        )
        left = [name for name in NAMES if name in scores and not (exclude_seen and name in user.items)]
        best = sorted(left, key=lambda name: -scores[name])[:5]
        assert answer.scores == pytest.approx([scores[name] for name in best], abs=1e-9)
        assert [scores[name] for name in answer.items] == pytest.approx(answer.scores, abs=1e-9)
        assert not (exclude_seen and set(answer.items) & set(user.items))


def store_of(model: Recommender, rows: list[History]) -> Store:
    assert model.catalogue.behaviours is not None
    return store_in_memory(
        {
            "items": pack([model.catalogue.item_ids(user.items) for user in rows]),
            "times": pack([[int(time) for time in user.times] for user in rows]),
            "behaviours": pack([model.catalogue.behaviour_ids(user.behaviours) for user in rows]),
        }
    )


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_a_store_is_ranked_without_a_look_at_the_target(network: str, exclude_seen: bool, seed: int) -> None:
    """The last item of a row is wanted at its own time, and is neither read nor counted as seen."""
    model = recommender(network, seed=seed)
    rows = [user for user in users(seed, count=60) if len(user.items) > 1]
    rows.append(rows[0]._replace(items=(*rows[0].items[:-1], "not in the catalogue")))
    ranked = model.rank_store(store_of(model, rows), exclude_seen=exclude_seen)
    nats, expected, repeated = 0.0, [], 0
    for user in rows:
        before = History(user.items[:-1], user.times[:-1], user.behaviours[:-1], user.times[-1])
        scores, target = plain_scores(model, before), model.catalogue.item_ids(user.items[-1:])[0]
        seen = {id for id in model.catalogue.item_ids(before.items) if id != UNK}
        repeated += target in seen
        if target == UNK:
            expected.append(MISSED)
            continue
        nats -= scores[target]
        if exclude_seen and target in seen:
            expected.append(MISSED)
            continue
        others = [id for id in range(FIRST_ITEM, len(scores)) if not (exclude_seen and id in seen)]
        expected.append(sum(scores[id] >= scores[target] - 1e-12 for id in others))
    assert ranked.ranks == expected and MISSED in expected and len(set(expected)) > 3
    assert (ranked.nats, ranked.seen) == (pytest.approx(nats, rel=1e-9), repeated)
