"""Labels of spans: BIO to IOBES and back, against what the schemes mean."""

import random

import pytest

from calque.text.span_labels import bio_name, spans, to_bio, to_iobes

NAMES = ["O", "B-NP", "I-NP", "B-VP", "I-VP"]


def well_formed(generator: random.Random) -> list[str]:
    labels: list[str] = []
    for _ in range(generator.randrange(12)):
        before = labels[-1] if labels else "O"
        labels.append(
            generator.choice([name for name in NAMES if name[0] != "I" or (before != "O" and name[1:] == before[1:])])
        )
    return labels


@pytest.mark.parametrize("seed", range(50))
def test_the_way_to_iobes_and_back_keeps_bio_labels_and_their_spans(seed) -> None:
    labels = well_formed(random.Random(seed))
    inside = to_iobes(labels)
    assert spans(inside) == spans(labels)
    assert to_bio(inside) == labels == to_bio(labels)
    assert list(map(bio_name, inside)) == labels
    for span in spans(labels):
        prefixes = "".join(label[0] for label in inside[span.start : span.stop])
        assert prefixes == "S" if len(prefixes) == 1 else prefixes == "B" + "I" * (len(prefixes) - 2) + "E"


@pytest.mark.parametrize("seed", range(50))
def test_what_is_ill_formed_keeps_its_spans(seed) -> None:
    generator = random.Random(seed)
    labels = generator.choices([*NAMES, "E-NP", "S-NP", "E-VP", "S-VP"], k=12)
    assert spans(to_bio(labels)) == spans(labels) == spans(to_iobes(labels))


def test_labels_without_a_type_and_without_a_span_stay_what_they_are() -> None:
    assert to_iobes(["B", "I", "O", "B"]) == ["B", "E", "O", "S"]
    assert to_bio(["B", "E", "O", "S"]) == ["B", "I", "O", "B"]
    assert [bio_name(name) for name in ("O", "SYM", "E", "EX-NP")] == ["O", "SYM", "I", "EX-NP"]
    assert to_iobes(["NOUN", "SYM"]) == ["NOUN", "SYM"]
