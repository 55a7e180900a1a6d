"""Forced decoding: the log-probability and the attention of every token of given translations.

Letters: B sentences, K translations per sentence, N = B·K, S source, T target.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.engine.ensemble import Decoding
from calque.layers.output import wide
from calque.models.model import Context, Model
from calque.objectives.decoding_step import pad_source
from calque.tensors import select_rows
from calque.text import BOS, EOS, PAD


class TargetTokens(NamedTuple):
    """A translation as ids, without BOS and EOS."""

    tokens: Sequence[int]
    cut: bool = False  # search ended before EOS, which is then not scored


class TokenScores(NamedTuple):
    """The log-probabilities of the tokens of a given translation, and their attention if the model has any."""

    log_probs: list[float]  # of each token, and of the end unless the translation was cut
    attention: Tensor | None  # [T,S] on the CPU, one row per log-probability; S counts the source's end


class _PaddedTargets(NamedTuple):
    """Translations as rows of a batch, K rows per source; if a source has fewer than K, its other rows are empty."""

    tokens: list[list[int]]  # of each row, with its end
    outputs: Tensor  # [N,T], padded
    inputs: Tensor  # [N,T], the outputs shifted by one position
    sources: Tensor  # [N], the source of each row


@torch.inference_mode()
def force_decode(
    model: Model, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[TargetTokens]]
) -> list[list[TokenScores]]:
    """Scores every translation of each source, all tokens in parallel. The model must be in evaluation mode.

    Law: the log-probabilities of a translation sum to the log-probability that search computes for it.
    """
    source = pad_source(sources)
    context = model.prepare(source.to(next(model.parameters()).device))
    return force_decode_in(model, context, targets, lengths=source.lengths)


@torch.inference_mode()
def force_decode_in(
    model: Model, context: Context, targets: Sequence[Sequence[TargetTokens]], *, lengths: Tensor
) -> list[list[TokenScores]]:
    """Like `force_decode`, but takes the encoded sources and their lengths [B]."""
    padded = _pad_targets(targets, device=next(model.parameters()).device)
    state = select_rows(model.start(context), padded.sources)
    output, _ = model.read(padded.inputs, state, context, attention=True)
    log_probs = model.log_probs(output, context).gather(2, padded.outputs[..., None]).squeeze(2)
    return _unpad_scores(padded, targets, log_probs=log_probs, attention=output.attention, lengths=lengths)


@torch.inference_mode()
def force_decode_stepwise(
    decoding: Decoding, targets: Sequence[Sequence[TargetTokens]], *, lengths: Tensor
) -> list[list[TokenScores]]:
    """Like `force_decode`, but token by token, which ensembles need. `lengths` [B] are those of the sources."""
    padded = _pad_targets(targets, device=lengths.device)
    state = select_rows(decoding.state, padded.sources)
    log_probs, attention_rows = [], []
    for position in range(padded.inputs.shape[1]):
        output, state = decoding.step(padded.inputs[:, position], state, decoding.context)
        log_probs.append(output.log_probs.gather(1, padded.outputs[:, position : position + 1]))
        if output.attention is not None:
            attention_rows.append(output.attention)
    attention = torch.stack(attention_rows, dim=1) if attention_rows else None
    return _unpad_scores(padded, targets, log_probs=torch.cat(log_probs, dim=1), attention=attention, lengths=lengths)


def _pad_targets(targets: Sequence[Sequence[TargetTokens]], *, device: torch.device) -> _PaddedTargets:
    per_source = max(map(len, targets))
    rows = [row for group in targets for row in (*group, *[TargetTokens(())] * (per_source - len(group)))]
    tokens = [[*row.tokens, *([] if row.cut else [EOS])] for row in rows]
    longest = max(1, *map(len, tokens))
    outputs = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in tokens], device=device)
    inputs = torch.cat([torch.full_like(outputs[:, :1], BOS), outputs[:, :-1]], dim=1)
    sources = torch.arange(len(targets), device=device).repeat_interleave(per_source)
    return _PaddedTargets(tokens, outputs, inputs, sources)


def _unpad_scores(
    padded: _PaddedTargets,
    targets: Sequence[Sequence[TargetTokens]],
    *,
    log_probs: Tensor,
    attention: Tensor | None,
    lengths: Tensor,
) -> list[list[TokenScores]]:
    log_probs, attention = log_probs.cpu(), None if attention is None else wide(attention).cpu()
    source_lengths = lengths.cpu()[padded.sources.cpu()].tolist()
    scores = [
        TokenScores(
            log_probs[row, : len(tokens)].tolist(),
            None if attention is None else attention[row, : len(tokens), :source_length],
        )
        for row, (tokens, source_length) in enumerate(zip(padded.tokens, source_lengths, strict=True))
    ]
    per_source = len(scores) // len(targets)
    return [scores[place * per_source : place * per_source + len(group)] for place, group in enumerate(targets)]
