# ruff: noqa: ARG001 - torch calls these functions with arguments that not all of them read
"""Attention over short sentences on a GPU: one Triton program per sentence and head, forward and backward.

Letters: B sentences, H heads, T queries, S keys, d head width.

A flash kernel works on tiles of 128 by 128 scores, of which a sentence of 32 tokens fills a sixteenth. Plain products
copy queries, keys and values so that heads follow each other, and write and read the scores. Here a program holds the
whole sentence of a head in registers: it reads each operand once, without copying it, and writes each result once. No
sum is taken over several programs, so results do not depend on the order in which programs run.

The readable version is `MultiHead`'s softmax(q·k/√d) v, which is used where there is no Triton or `fits` is false.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

QueriesKeysValues = tuple[Tensor, Tensor, Tensor]


@torch.library.custom_op("calque::short_attention", mutates_args=())
def short_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """softmax(q·k/√d) v [B,H,T,d], given queries [B,H,T,d], keys and values [B,H,S,d] and a mask [B,1,1,S].

    If `causal`, the queries are the last T of S positions, and each attends to positions up to its own. In memory, the
    heads of a position follow each other, so that concatenating them copies nothing.
    """
    output = _per_position(queries)
    arguments = _arguments(queries, keys, values, mask, causal=causal)
    _forward[(queries.shape[0] * queries.shape[1],)](
        queries, keys, values, _pointer(mask, queries), output, *_strides(output), **arguments
    )
    return output


@short_attention.register_fake
def _(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    return _per_position(queries)


@torch.library.custom_op("calque::short_attention_backward", mutates_args=())
def short_attention_backward(
    slopes: Tensor, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values, given that of the output, `slopes` [B,H,T,d].

    With weights p and dp = do·v: dv = pᵀ do, ds = p ∘ (dp − Σ p dp)/√d, dq = ds k, dk = dsᵀ q.
    """
    results = _per_position(queries), _per_position(keys), _per_position(values)
    _backpropagate(slopes, (queries, keys, values), mask=mask, causal=causal, results=results)
    return results


@short_attention_backward.register_fake
def _(
    slopes: Tensor, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return _per_position(queries), _per_position(keys), _per_position(values)


def _keep(ctx, inputs, output):
    queries, keys, values, mask, ctx.causal = inputs
    ctx.save_for_backward(queries, keys, values, mask)


def _differentiate(ctx, slopes):
    gradients = short_attention_backward(slopes, *ctx.saved_tensors, ctx.causal)
    return *gradients, None, None


short_attention.register_autograd(_differentiate, setup_context=_keep)


@torch.library.custom_op("calque::short_self_attention", mutates_args=())
def short_self_attention(projected: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    """`short_attention` of a sentence over itself, given its queries, keys and values as one tensor [B,T,3·H·d].

    The result is [B,T,H·d]. The gradient is one tensor too, so that the backward pass of the projection reads it
    without a copy.
    """
    output: Tensor = short_attention(*_parts(projected, heads), mask, causal)
    return output.transpose(1, 2).flatten(2)


@short_self_attention.register_fake
def _(projected: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    return projected.new_empty(*projected.shape[:2], projected.shape[2] // 3)


@torch.library.custom_op("calque::short_self_attention_backward", mutates_args=())
def short_self_attention_backward(
    slopes: Tensor, projected: Tensor, heads: int, mask: Tensor | None, causal: bool
) -> Tensor:
    """The gradient [B,T,3·H·d] of queries, keys and values, given that of the output, `slopes` [B,T,H·d]."""
    result = torch.empty_like(projected, memory_format=torch.contiguous_format)
    by_head = slopes.unflatten(2, (heads, -1)).transpose(1, 2)
    _backpropagate(by_head, _parts(projected, heads), mask=mask, causal=causal, results=_parts(result, heads))
    return result


@short_self_attention_backward.register_fake
def _(slopes: Tensor, projected: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    return torch.empty_like(projected, memory_format=torch.contiguous_format)


def _keep_projected(ctx, inputs, output):
    projected, ctx.heads, mask, ctx.causal = inputs
    ctx.save_for_backward(projected, mask)


def _differentiate_projected(ctx, slopes):
    projected, mask = ctx.saved_tensors
    return short_self_attention_backward(slopes, projected, ctx.heads, mask, ctx.causal), None, None, None


short_self_attention.register_autograd(_differentiate_projected, setup_context=_keep_projected)


def _parts(projected: Tensor, heads: int) -> QueriesKeysValues:
    """Queries, keys and values, [B,H,T,d] each, as views of one tensor [B,T,3·H·d]."""
    queries, keys, values = projected.unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    return queries, keys, values


def _backpropagate(
    slopes: Tensor, operands: QueriesKeysValues, *, mask: Tensor | None, causal: bool, results: QueriesKeysValues
) -> None:
    """Writes the gradients of the operands into `results`, given that of the output, `slopes` [B,H,T,d]."""
    queries, keys, values = operands
    slopes = slopes if slopes.stride(3) == 1 else slopes.contiguous()
    arguments = _arguments(queries, keys, values, mask, causal=causal)
    strides = [stride for tensor in (slopes, *results) for stride in _strides(tensor)]
    _backward[(queries.shape[0] * queries.shape[1],)](
        queries, keys, values, _pointer(mask, queries), slopes, *results, *strides, **arguments
    )


def _per_position(like: Tensor) -> Tensor:
    """An uninitialised tensor with the shape [B,H,T,d] of `like`, laid out in memory as [B,T,H,d]."""
    rows, heads, size, width = like.shape
    return like.new_empty(rows, size, heads, width).transpose(1, 2)


def _strides(tensor: Tensor) -> tuple[int, int, int]:
    assert tensor.stride(3) == 1
    return tensor.stride(0), tensor.stride(1), tensor.stride(2)


def _pointer(mask: Tensor | None, other: Tensor) -> Tensor:
    return other if mask is None else mask.view(torch.int8) if mask.dtype == torch.bool else mask


def _arguments(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, causal: bool
) -> dict[str, int | float | bool]:
    """The arguments of the forward and backward kernels other than tensors: strides, sizes and options."""
    names = [f"{name}_{axis}" for name in "qkv" for axis in "bht"]
    strides = [stride for tensor in (queries, keys, values) for stride in _strides(tensor)]
    size = max(16, triton.next_power_of_2(max(queries.shape[2], keys.shape[2])))
    return {
        **dict(zip(names, strides, strict=True)),
        "mask_b": 0 if mask is None else mask.stride(0),
        "mask_s": 0 if mask is None else mask.stride(3),
        "scale": queries.shape[3] ** -0.5,
        "queries": queries.shape[2],
        "keys": keys.shape[2],
        "heads": queries.shape[1],
        "causal": causal,
        "masked": mask is not None,
        "size": size,
        "width": queries.shape[3],
        "num_warps": 4 if size > 32 else 2,
    }


@triton.jit
def _weights(
    q, k, mask, b, mask_b, mask_s, scale, queries, keys, causal: tl.constexpr, masked: tl.constexpr, size: tl.constexpr
):
    t = tl.arange(0, size)[:, None]
    s = tl.arange(0, size)[None, :]
    allowed = (s < keys) & (t < size)
    if masked:
        allowed = allowed & (tl.load(mask + b * mask_b + s * mask_s, mask=s < keys, other=0) != 0)
    if causal:
        allowed = allowed & (s <= t + keys - queries)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    scores = tl.where(allowed, scores, float("-inf"))
    top = tl.max(scores, axis=1)
    powers = tl.exp(scores - top[:, None])
    return powers / tl.sum(powers, axis=1)[:, None]


@triton.jit
def _load(pointer, b, h, stride_b, stride_h, stride_t, length, size: tl.constexpr, width: tl.constexpr):
    t = tl.arange(0, size)[:, None]
    c = tl.arange(0, width)[None, :]
    return tl.load(pointer + b * stride_b + h * stride_h + t * stride_t + c, mask=t < length, other=0.0)


@triton.jit
def _store(pointer, values, b, h, stride_b, stride_h, stride_t, length, size: tl.constexpr, width: tl.constexpr):
    t = tl.arange(0, size)[:, None]
    c = tl.arange(0, width)[None, :]
    place = pointer + b * stride_b + h * stride_h + t * stride_t + c
    tl.store(place, values.to(pointer.dtype.element_ty), mask=t < length)


@triton.jit
def _forward(
    q_pointer, k_pointer, v_pointer, mask, output, o_b, o_h, o_t,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, mask_b, mask_s, scale, queries, keys,
    heads: tl.constexpr, causal: tl.constexpr, masked: tl.constexpr, size: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(0) // heads).to(tl.int64)
    h = tl.program_id(0) % heads
    q = _load(q_pointer, b, h, q_b, q_h, q_t, queries, size, width)
    k = _load(k_pointer, b, h, k_b, k_h, k_t, keys, size, width)
    v = _load(v_pointer, b, h, v_b, v_h, v_t, keys, size, width)
    p = _weights(q, k, mask, b, mask_b, mask_s, scale, queries, keys, causal, masked, size)
    _store(output, tl.dot(p.to(v.dtype), v, input_precision="ieee"), b, h, o_b, o_h, o_t, queries, size, width)


@triton.jit
def _backward(
    q_pointer, k_pointer, v_pointer, mask, slopes, of_q, of_k, of_v,
    s_b, s_h, s_t, dq_b, dq_h, dq_t, dk_b, dk_h, dk_t, dv_b, dv_h, dv_t,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, mask_b, mask_s, scale, queries, keys,
    heads: tl.constexpr, causal: tl.constexpr, masked: tl.constexpr, size: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(0) // heads).to(tl.int64)
    h = tl.program_id(0) % heads
    q = _load(q_pointer, b, h, q_b, q_h, q_t, queries, size, width)
    k = _load(k_pointer, b, h, k_b, k_h, k_t, keys, size, width)
    v = _load(v_pointer, b, h, v_b, v_h, v_t, keys, size, width)
    do = _load(slopes, b, h, s_b, s_h, s_t, queries, size, width)
    p = _weights(q, k, mask, b, mask_b, mask_s, scale, queries, keys, causal, masked, size)
    dv = tl.dot(tl.trans(p.to(v.dtype)), do, input_precision="ieee")
    _store(of_v, dv, b, h, dv_b, dv_h, dv_t, keys, size, width)
    dp = tl.dot(do, tl.trans(v), input_precision="ieee")
    ds = (p * (dp - tl.sum(p * dp, axis=1)[:, None]) * scale).to(q.dtype)
    _store(of_q, tl.dot(ds, k, input_precision="ieee"), b, h, dq_b, dq_h, dq_t, queries, size, width)
    _store(of_k, tl.dot(tl.trans(ds), q, input_precision="ieee"), b, h, dk_b, dk_h, dk_t, keys, size, width)
