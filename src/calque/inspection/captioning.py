"""What a captioner computes for an image: the caption, its candidates, and the attention of every word.

Letters: T pieces with the end mark, S grid positions, V vocabulary.
"""

import base64
import io
from pathlib import Path
from typing import Any, NamedTuple

import torch

from calque.data.images import Array, Picture, pillow
from calque.engine import Candidate, Captioner, CaptionRequest
from calque.engine.engine import lock_of
from calque.errors import CalqueError
from calque.inspection.document import Weights, as_lists, rounded, step_values
from calque.inspection.image_attention import AttendedWord, draw_attention, overlaid, words_with_attention
from calque.inspection.next_tokens import TargetStep, next_token_steps
from calque.search.settings import SearchConfig
from calque.text import BOS, EOS, PIECES

PICTURES = ("attention",)


class CaptionView(NamedTuple):
    """What a captioner computed for one image."""

    image: str
    picture: Picture
    side: int  # rows and columns of the grid
    candidates: list[Candidate]  # best first
    steps: list[TargetStep]  # of the best one, its end included unless it was truncated
    words: list[AttendedWord] | None  # of the best one; None if the model has no attention

    @property
    def best(self) -> Candidate:
        return self.candidates[0]


def inspect_caption(captioner: Captioner, image: Path, *, search: SearchConfig) -> CaptionView:
    """Captions an image and returns what the captioner computed on the way. Raises the error if captioning fails."""
    answer = next(captioner.answers([CaptionRequest(image, search, nbest=search.beam, detail=True)]))
    if isinstance(answer, CalqueError):
        raise answer
    best = answer.candidates[0]
    assert best.detail is not None
    words = words_with_attention(captioner.tokenizer, best.detail) if best.detail.attention is not None else None
    steps = _steps(captioner, answer.picture, [*best.detail.ids, *([] if best.cut else [EOS])])
    return CaptionView(str(image), answer.picture, captioner.side, answer.candidates, steps, words)


@torch.inference_mode()
def _steps(captioner: Captioner, picture: Picture, ids: list[int]) -> list[TargetStep]:
    """For each piece of the caption `ids`, its probability, its rank and the most likely other pieces."""
    if not ids:
        return []
    with lock_of(captioner.model), captioner.model.evaluating():
        context = captioner.encode([picture.pixels])
        inputs = torch.tensor([[BOS, *ids[:-1]]], device=captioner.device)
        output, _ = captioner.model.read(inputs, captioner.model.start(context), context)
        log_probs = captioner.model.log_probs(output, context)[0].double().cpu()
    vocabulary = captioner.tokenizer.vocabulary
    return next_token_steps(log_probs, ids, piece=lambda id: PIECES[id] if id == EOS else vocabulary.piece(id))


def caption_values(view: CaptionView, *, weights: Weights = as_lists) -> dict[str, Any]:
    """An inspected image as JSON values. With weights in base64, as on a web page, pictures are included.

    {"source": {"text": path, "width", "height", "picture"}, "target": {"text"}, "cut": is it truncated, "log_prob",
     "score", "candidates": [{"text", "log_prob", "score", "cut"}…], "steps": […],
     "attention": null | {"grid": [rows, columns], "words": [{"word", "weights" or "picture"}…]}}
    """
    is_page = weights is not as_lists
    best = view.best
    pixels = view.picture.pixels
    return {
        "source": {
            "text": view.image,
            "width": view.picture.width,
            "height": view.picture.height,
            **({"picture": png(pixels)} if is_page else {}),
        },
        "target": {"text": best.text},
        "cut": best.cut,
        "log_prob": rounded(best.log_prob),
        "score": rounded(best.score),
        "candidates": [
            {"text": item.text, "log_prob": rounded(item.log_prob), "score": rounded(item.score), "cut": item.cut}
            for item in view.candidates
        ],
        "steps": [step_values(step) for step in view.steps],
        "attention": None
        if view.words is None
        else {
            "grid": [view.side, view.side],
            "words": [
                {"word": word, "picture": png(overlaid(pixels, attention, side=view.side))}
                if is_page
                else {"word": word, "weights": rounded(attention.tolist())}
                for word, attention in view.words
            ],
        },
    }


def png(pixels: Array) -> str:
    """Pixels [H,H,3] as the data: URL of a PNG."""
    file = io.BytesIO()
    pillow().fromarray(pixels).save(file, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def draw_caption(path: Path, view: CaptionView, *, picture: str) -> list[str]:
    """Draws the attention of every word over the image, to the file `path`; returns warnings about missing fonts."""
    assert picture in PICTURES
    return draw_attention(path, view.picture.pixels, view.words or [], side=view.side, title=view.best.text)
