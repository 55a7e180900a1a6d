"""The recommender: answers against plain sorting, whatever the batch; new users, new items, and bad requests."""

import random
from pathlib import Path

import pytest
import torch
from tests.conftest import without_plots
from tests.histories import TIME_AWARE, history, recommendation_values

import calque
from calque.data.prepare import open_prepared
from calque.engine import History, Recommendations, Recommender
from calque.errors import TextError
from calque.experiment import train


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A recommender of items, one that reads times and behaviours, and popularity; do not change them."""
    folder = tmp_path_factory.mktemp("recommend")
    with without_plots():
        items = train(recommendation_values(folder), run=folder / "items", quiet=True).folder
        timed = train(recommendation_values(folder, network=TIME_AWARE), run=folder / "timed", quiet=True).folder
        values = recommendation_values(folder)
        values = {key: values[key] for key in ("task", "data")} | {"model": {"network": {"kind": "popularity"}}}
        popular = train(values, run=folder / "popular", quiet=True).folder
    return {"items": items, "timed": timed, "popular": popular}


def loaded(runs: dict[str, Path], name: str = "items", **options: str) -> Recommender:
    recommender = calque.load(runs[name], device="cpu", **options)
    assert isinstance(recommender, Recommender)
    return recommender


def histories(count: int, *, seed: int = 3) -> list[History]:
    generator = random.Random(seed)
    made = [history(generator) for _ in range(count)]
    return [History(user["items"], user["times"], user["behaviours"], user["times"][-1] + 50) for user in made]


@pytest.mark.parametrize("name", ["items", "timed", "popular"])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_items_are_those_with_the_best_scores(runs, name: str, exclude_seen: bool) -> None:
    recommender = loaded(runs, name, precision="float64")
    for request in histories(5):
        answer = recommender.recommend(request, top=7, exclude_seen=exclude_seen)
        with torch.no_grad():
            scores = recommender.model.scores(recommender.batch([recommender.encode(request)]))[0].tolist()
        items = recommender.catalogue.names(range(4, len(scores)))
        seen = set(request.items) if exclude_seen else set()
        ranked = sorted((item for item in items if item not in seen), key=lambda item: -scores[4 + items.index(item)])
        assert answer.items == ranked[:7]
        assert answer.scores == pytest.approx([scores[4 + items.index(item)] for item in ranked[:7]], abs=1e-12)


@pytest.mark.parametrize("name", ["items", "timed"])
@pytest.mark.parametrize(("precision", "noise"), [("float64", 1e-12), ("float32", 2e-5)])
def test_an_answer_does_not_depend_on_the_batch(runs, name: str, precision: str, noise: float) -> None:
    recommender = loaded(runs, name, precision=precision)
    requests = [*histories(40), History([])]
    together = recommender.recommend(requests, top=20)
    random.Random(1).shuffle(order := list(range(len(requests))))
    shuffled = recommender.recommend([requests[index] for index in order], top=20)
    for index, request in enumerate(requests):
        alone = recommender.recommend(request, top=20)
        for other in (together[index], shuffled[order.index(index)]):
            assert other.scores == pytest.approx(alone.scores, abs=noise)
            pairs = zip(alone, other, strict=True)
            scores = dict(alone)
            assert all(item == its or abs(scores.get(its, score) - score) <= noise for (item, score), (its, _) in pairs)


def test_new_users_and_new_items_are_answered_by_popularity(runs) -> None:
    recommender, popular = loaded(runs), loaded(runs, "popular")
    counts = recommender.catalogue.counts
    best = sorted(range(4, len(counts)), key=lambda id: (-counts[id], id))[:5]
    for request in ([], "", ["never heard of", "<unk>"]):
        answer = recommender.recommend(request, top=5)
        assert answer.is_cold and answer.items == recommender.catalogue.names(best)
    assert answer.unknown == 2
    mixed = recommender.recommend(["g0i0", "never heard of", "g0i1"])
    assert mixed == Recommendations(*_parts(recommender.recommend(["g0i0", "g0i1"])), unknown=1)
    assert popular.recommend("g0i0", top=3, exclude_seen=False).items == recommender.catalogue.names(best[:3])


def _parts(answer: Recommendations) -> tuple[list[str], list[float]]:
    return answer.items, answer.scores


def test_only_the_latest_items_are_read_but_all_are_excluded(runs) -> None:
    recommender = loaded(runs, precision="float64")
    request = [f"g{place % 5}i{place % 6}" for place in range(25)]
    long = recommender.recommend(request, top=100, exclude_seen=False)
    assert long == recommender.recommend(request[-10:], top=100, exclude_seen=False)
    without = recommender.recommend(request, top=100)
    assert without.items == [item for item in long.items if item not in request]
    assert len(long) == len(recommender.catalogue.items) - 4  # special pieces are never recommended


def test_an_error_concerns_its_own_request_alone(runs) -> None:
    recommender = loaded(runs, "timed")
    good = histories(2)
    bad = [
        (History(["g0i0"]), "1 items, but 0 times"),
        (History(["g0i0"], [1.0]), "1 items, but 0 behaviours"),
        (History(["g0i0", "g0i1"], [5, 4], ["view", "view"]), "item 2 has time 4, before item 1 with 5"),
        (
            History(["g0i0"], [5], ["view"], now=3),
            "now (3) is earlier than the time of the last item in the history (5)",
        ),
        (History(["g0i0"], [float("nan")], ["view"]), "expected a number of seconds"),
    ]
    answers = list(recommender.stream([good[0], *(request for request, _ in bad), good[1]]))
    assert [answers[0], answers[-1]] == recommender.recommend(good)
    for answer, (request, message) in zip(answers[1:-1], bad, strict=True):
        assert isinstance(answer, TextError) and message in str(answer)
        with pytest.raises(TextError):
            recommender.recommend(request)
    assert recommender.recommend(History(["g0i0"], [5], ["never seen"])).items
    with pytest.raises(TextError, match="it must be at least 1"):
        recommender.recommend([], top=0)


def as_request(items: list[str], times: list[str] | None = None, behaviours: list[str] | None = None) -> History:
    """The history before the last item, which is asked for at its time."""
    if times is None or behaviours is None:
        return History(items[:-1])
    *before, now = map(int, times)
    return History(items[:-1], before, behaviours[:-1], now)


def test_the_store_is_ranked_as_its_text(runs) -> None:
    for name in ("items", "timed", "popular"):
        recommender = loaded(runs, name, precision="float64")
        prepared = open_prepared(runs[name] / "store")
        rows = [[text.split("\t")[:-1] for text in texts[1:]] for texts in prepared.valid_text]
        requests = [as_request(*row) for row in rows]
        targets = [items[-1] for items, *_ in rows]
        for exclude_seen in (True, False):
            by_text = recommender.rank(requests, targets, exclude_seen=exclude_seen)
            by_store = recommender.rank_store(prepared.valid, parts=3, exclude_seen=exclude_seen)
            assert by_store._replace(nats=0) == by_text._replace(nats=0)
            assert by_store.nats == pytest.approx(by_text.nats)
            answers = recommender.recommend(requests, top=1000, exclude_seen=exclude_seen)
            assert (
                by_text.ranks
                == [
                    answer.items.index(target) + 1 if target in answer.items else 0
                    for answer, target in zip(answers, targets, strict=True)
                ]
                or name == "popular"
            )  # whose ties count against the target
