"""Documents as `calque inspect` writes them, with plausible numbers, so that pages are tested without models."""

import base64
import math
import random
from array import array
from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]

GERMAN = ("Der alte Mann ging langsam nach Hause .", "The old man slowly went home .")
ARABIC = ("ذهب الرجل العجوز ببطء إلى البيت .", "הזקן הלך לאט הביתה .")
CHINESE = ("那位老人慢慢地走回家。", "老人はゆっくり家に帰った。")
LONG = (
    " ".join(f"Wort{number}" if number % 3 else "und" for number in range(59)),
    " ".join(f"word{number}" if number % 3 else "and" for number in range(59)),
)


def inspection(*sentences: Document, attends: bool = True) -> Document:
    """A document of `calque inspect`."""
    model = {"name": "runs/de-en", "architecture": "transformer to transformer", "parameters": 61_234_176}
    return {
        "kind": "inspection",
        "version": 1,
        "task": "translation",
        "model": {**model, "attends": attends},
        "sentences": list(sentences),
    }


def translation(
    source: str,
    target: str,
    *,
    seed: int = 0,
    layers: int = 2,
    heads: int = 4,
    beam: int = 4,
    kinds: Sequence[str] = ("source", "encoder", "decoder"),
    attends: bool = True,
    lists: bool = False,
    given: bool = False,
) -> Document:
    """An inspected sentence; `lists` writes attention as nested lists, as in JSON that is not inside a page."""
    generator = random.Random(seed)
    pieces = {"source": split(source), "target": split(target)}
    words = {side: [[index, index] for index in range(len(parts) - 1)] for side, parts in pieces.items()}
    tree = beam_tree(pieces["target"], width=beam, generator=generator)
    sizes = {"source": ("target", "source"), "encoder": ("source", "source"), "decoder": ("target", "target")}
    maps = [
        attention_map(
            kind, layer, heads, *(len(pieces[side]) for side in sizes[kind]), generator=generator, lists=lists
        )
        for kind in kinds
        for layer in range(layers)
    ]
    steps = [step(piece, generator=generator, gate=not attends) for piece in pieces["target"]]
    size = (len(pieces["target"]), len(pieces["source"]))
    saliency = [
        {"method": "gradient × input", "weights": soft_diagonal(*size, generator=generator, signed=True)},
        {"method": "integrated gradients", "weights": soft_diagonal(*size, generator=generator)},
    ]
    last = tree["steps"][-1]["candidates"] if tree else []
    ended = next((candidate for candidate in last if tree and candidate["id"] == tree["answer"][-1]), None)
    return {
        "source": {"text": source, "pieces": pieces["source"], "words": words["source"]},
        "target": {"text": target, "pieces": pieces["target"], "words": words["target"], "given": given},
        "log_prob": round(sum(step["log_prob"] for step in steps), 5),
        "score": None if ended is None else {**ended["score"], "log_prob": ended["log_prob"]},
        "confidence": None if given else 0.71,
        "cut": False,
        "steps": steps,
        "attention": {"maps": maps} if attends else None,
        "saliency": None if attends else saliency,
        "alignment": [[min(row, len(words["source"]) - 1), row] for row in range(len(words["target"]))],
        "coverage": [round(generator.uniform(0.3, 1.6), 4) for _ in pieces["source"]] if attends else None,
        "beam": tree,
        "own": own_translation(beam, pieces=len(pieces["target"])) if given else None,
    }


def own_translation(width: int, *, pieces: int) -> Document:
    """A model's own translation beside a given one, which beams of up to `width` lose, the widest at its end."""
    beams = [
        {
            "beam": beam,
            "finds": False,
            "lost_at": pieces if beam == width else 2,
            "is_stopped": beam == width,
            "text": f"Home with a beam of {beam}",
            "score": -1.0,
        }
        for beam in range(1, width + 1)
    ]
    return {"text": f"Home with a beam of {width}", "cut": False, "log_prob": -3.5, "score": -1.0, "beams": beams}


def split(text: str) -> list[str]:
    """Pieces: words that begin with ▁, or characters of scripts without spaces, and the end mark."""
    parts = [f"▁{word}" for word in text.split(" ")] if " " in text else list(text)
    return [*parts, "</s>"]


def step(piece: str, *, generator: random.Random, gate: bool) -> Document:
    probability = generator.uniform(0.35, 0.97)
    rest, others = 1 - probability, []
    for rank in range(5):
        rest *= generator.uniform(0.3, 0.6)
        others.append({"piece": f"▁other{rank}", "log_prob": round(math.log(rest), 5)})
    return {
        "piece": piece,
        "log_prob": round(math.log(probability), 5),
        "rank": 1 if probability > 0.45 else 2,
        "entropy": round(generator.uniform(0.2, 2.5), 4),
        "runners_up": others,
        "copying": round(generator.random(), 4) if gate else None,
    }


def soft_diagonal(
    rows: int, columns: int, *, generator: random.Random, causal: bool = False, signed: bool = False
) -> list[list[float]]:
    """Rows of weights around the diagonal that sum to one; `signed` turns some of them negative."""
    matrix = []
    sharp = generator.uniform(0.3, 3.0)
    for row in range(rows):
        centre = row * columns / rows
        values = [math.exp(-sharp * abs(column - centre) + generator.gauss(0, 0.7)) for column in range(columns)]
        if causal:
            values = [value if column <= row else 0.0 for column, value in enumerate(values)]
        signs = [-1 if signed and generator.random() < 0.2 else 1 for _ in values]
        matrix.append([round(sign * value / sum(values), 5) for sign, value in zip(signs, values, strict=True)])
    return matrix


def attention_map(
    kind: str, layer: int, heads: int, rows: int, columns: int, *, generator: random.Random, lists: bool
) -> Document:
    names = {
        "source": f"decoder.blocks.{layer}.cross_attention",
        "encoder": f"encoder.blocks.{layer}.self_attention",
        "decoder": f"decoder.blocks.{layer}.self_attention",
    }
    weights = [soft_diagonal(rows, columns, generator=generator, causal=kind == "decoder") for _ in range(heads)]
    packed = {"shape": [heads, rows, columns], "uint16": base64_integers(weights)}
    named = {"name": names[kind], "kind": kind, "layer": layer + 1, "heads": heads}
    return {**named, "weights": weights if lists else packed}


def base64_integers(weights: list[list[list[float]]]) -> str:
    integers = array("H", [round(value * 65535) for head in weights for row in head for value in row])
    return base64.b64encode(integers.tobytes()).decode()


def beam_tree(target: Sequence[str], *, width: int, generator: random.Random) -> Document:
    """A small beam search over made-up probabilities in which `target` wins."""
    live: list[tuple[int, float, bool]] = [(0, 0.0, True)]  # id, log-probability, whether on the answer's path
    steps: list[Document] = []
    answer, ids = [], 0
    for place, wanted in enumerate(target):
        pool = []
        for parent, log_prob, on_path in live:
            pool += [
                (log_prob + math.log(generator.uniform(0.02, 0.3)), parent, f"▁p{number}", False) for number in range(4)
            ]
            if place > 1 and wanted != "</s>":
                pool.append((log_prob + math.log(generator.uniform(0.01, 0.2)), parent, "</s>", False))
            if on_path:
                pool.append((log_prob + math.log(generator.uniform(0.3, 0.9)), parent, wanted, True))
        candidates, live = [], []
        for rank, (log_prob, parent, piece, on_path) in enumerate(sorted(pool, reverse=True)[: 2 * width]):
            ids += 1
            log_prob = round(log_prob, 5)
            ends = piece == "</s>"
            fate, reason, score = "kept", None, None
            if ends and (rank < width or on_path):
                fate, score = "ended", terms(log_prob, length=place + 1)
            elif ends:
                fate, reason = "dropped", "end-rank"
            elif len(live) < width:
                live.append((ids, log_prob, on_path))
            else:
                fate, reason = "dropped", "rank"
            if on_path:
                answer.append(ids)
            shown = {"id": ids, "parent": parent, "piece": piece, "log_prob": log_prob}
            candidates.append({**shown, "fate": fate, "reason": reason, "score": score})
        steps.append({"length": place + 1, "candidates": candidates})
    narrower = [
        {
            "beam": beam,
            "finds": beam > 2,
            "lost_at": None if beam > 2 else 2,
            "is_stopped": False,
            "text": "The old man went home.",
        }
        for beam in range(1, width)
    ]
    ended = [
        {"text": f"{item['piece']} {item['id']}", "log_prob": item["log_prob"], "score": item["score"]}
        for step in steps
        for item in step["candidates"]
        if item["fate"] == "ended"
    ]
    ended.sort(key=lambda item: -item["score"]["total"])
    scoring = {"alpha": 1.0, "beta": 0.2, "gamma": 0.0, "reward": 0.0, "normalisation": "gnmt"}
    tree = {"width": width, "nbest": 1, "scoring": scoring, "steps": steps, "answer": answer}
    return {**tree, "stop": "bound", "ended": ended, "narrower": narrower}


def terms(log_prob: float, *, length: int) -> Document:
    """The terms of a score, whose sum is the total."""
    normalised, coverage = round(log_prob / ((5 + length) / 6), 5), -0.125
    total = round(normalised + coverage, 5)
    return {"total": total, "length": normalised, "coverage": coverage, "end": 0.0, "reward": 0.0}
