"""What a recommender shows of itself: candidates are its answers, attention and influence are what they claim."""

from pathlib import Path

import pytest
import torch
from tests.conftest import without_plots
from tests.histories import GRU, TIME_AWARE, TRANSFORMER
from tests.histories import recommendation_values as config_values

import calque
from calque.engine import History, Recommender
from calque.experiment import train
from calque.inspection.recommendation import inspect_recommendation, recommendation_values

NETWORKS = {"transformer": TRANSFORMER, "time-aware": TIME_AWARE, "gru": GRU}
HISTORY = History(["g0i0", "g0i1", "new", "g0i2"], [0, 60, 70, 90], ["view"] * 4, now=120)


@pytest.fixture(scope="module", params=sorted(NETWORKS))
def recommender(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recommender:
    folder = tmp_path_factory.mktemp(request.param)
    with without_plots():
        values = config_values(folder, network=NETWORKS[request.param], users=60, steps=4)
        loaded = calque.load(train(values, run=folder / "run", quiet=True).folder, device="cpu", precision="float64")
    assert isinstance(loaded, Recommender)
    return loaded


def test_candidates_are_those_that_are_recommended(recommender: Recommender) -> None:
    view = inspect_recommendation(recommender, HISTORY, candidates=100)
    answer = recommender.recommend(HISTORY, top=100)
    assert [item.item for item in view.recommended] == answer.items
    assert [item.log_prob for item in view.recommended] == pytest.approx(answer.scores)
    assert {item.item for item in view.candidates if item.is_seen} == {"g0i0", "g0i1", "g0i2"}
    assert view.items == ["g0i0", "g0i1", "g0i2"] and view.unknown == 1 and not view.is_cold


def test_influence_is_what_leaving_an_item_out_changes(recommender: Recommender) -> None:
    view = inspect_recommendation(recommender, HISTORY)
    best = view.recommended[0]
    for place, item in enumerate(view.items):
        kept = [index for index, other in enumerate(HISTORY.items) if other != item]
        without = History(
            [HISTORY.items[index] for index in kept],
            [HISTORY.times[index] for index in kept],
            [HISTORY.behaviours[index] for index in kept],
            HISTORY.now,
        )
        scores = dict(recommender.recommend(without, top=100, exclude_seen=False))
        assert view.influence[place] == pytest.approx(best.log_prob - scores[best.item], abs=1e-9)


def test_contributions_are_the_influence_on_every_candidate(recommender: Recommender) -> None:
    view = inspect_recommendation(recommender, HISTORY, candidates=5)
    assert len(view.contributions) == len(view.candidates) and {len(row) for row in view.contributions} == {3}
    without = History(["g0i1", "new", "g0i2"], [60, 70, 90], ["view"] * 3, now=120)
    scores = dict(recommender.recommend(without, top=100, exclude_seen=False))
    for candidate, row in zip(view.candidates, view.contributions, strict=True):
        assert row[0] == pytest.approx(candidate.log_prob - scores[candidate.item], abs=1e-9)
    shown = [item.item for item in view.candidates]
    assert view.contributions[shown.index(view.recommended[0].item)] == pytest.approx(view.influence)
    cold = inspect_recommendation(recommender, History(["new"], [0], ["view"]), candidates=5)
    assert cold.contributions == [[]] * 5 and cold.influence == []


def test_the_recommended_item_is_shown_however_many_seen_items_are_likelier(recommender: Recommender) -> None:
    every = recommender.recommend(History([]), top=8).items
    history = History(every, list(range(8)), ["view"] * 8, now=20)
    for candidates in (1, 2, 12):
        view = inspect_recommendation(recommender, history, candidates=candidates)
        assert view.recommended[0].item == recommender.recommend(history, top=1).items[0]
        assert candidates <= len(view.candidates) <= candidates + 1
        place = view.candidates.index(view.recommended[0])
        assert view.contributions[place] == pytest.approx(view.influence)


def test_attention_is_that_of_the_last_position(recommender: Recommender) -> None:
    view = inspect_recommendation(recommender, HISTORY)
    if recommender.config.network.kind == "recurrent":
        assert view.attention is None and recommendation_values(view)["attention"] is None
        return
    assert view.attention is not None and len(view.attention) == 3
    assert sum(view.attention) == pytest.approx(1)
    for layer in view.maps:
        assert layer.weights.shape[1:] == (3, 3) and not torch.triu(layer.weights, diagonal=1).any()


def test_a_new_user_has_nothing_to_attend_to(recommender: Recommender) -> None:
    view = inspect_recommendation(recommender, History([]))
    assert view.is_cold and view.items == view.influence == [] and view.attention is None
    assert [item.item for item in view.recommended[:3]] == recommender.recommend(History([]), top=3).items


@pytest.mark.parametrize("picture", ["history", "candidates"])
def test_pictures_are_drawn(recommender: Recommender, picture: str, tmp_path: Path) -> None:
    from calque.inspection.recommendation import draw_recommendation

    if recommender.config.network.kind == "time-aware":  # one of them is enough
        path = tmp_path / "picture.svg"
        draw_recommendation(path, inspect_recommendation(recommender, HISTORY), picture=picture)
        assert "g0i0" in path.read_text()
