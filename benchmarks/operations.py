"""Counts the multiply-adds of a model's matrix products, which no implementation can avoid, given its config.

Only products count (linear layers, attention, gates of an LSTM, the output layer); everything else is cheap in
arithmetic, if not in time. A multiply-add is two floating-point operations. The config is the [model] table of a
model folder's config.toml. Lengths count end marks; they may be means, since attention, the only part that is not
linear in them, is a few per cent.

Letters: S source, T target, K beams, D width, F feed-forward, L layers, V vocabulary.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.errors import BenchmarkError

Config = Mapping[str, Any]
BACKWARD = 2  # products of the backward pass for each of the forward pass: by the inputs and by the weights


class Product(NamedTuple):
    """A matrix product with a weight matrix, rows × inner by inner × columns, and how often it is done."""

    inner: int
    columns: int
    rows: float

    @property
    def multiply_adds(self) -> float:
        return self.rows * self.inner * self.columns


class Operations(NamedTuple):
    """The matrix products of some work, and their total cost."""

    products: tuple[Product, ...]  # with weights
    attention: float = 0.0  # multiply-adds of products without weights

    @property
    def multiply_adds(self) -> float:
        return sum(product.multiply_adds for product in self.products) + self.attention

    @property
    def flops(self) -> float:
        return 2 * self.multiply_adds


def training_operations(config: Config, *, source: float, target: float, vocabulary: int) -> Operations:
    """The operations of a forward and backward pass over one sentence pair: three times those of the forward pass."""
    encoder = encoder_operations(config["encoder"], source=source)
    decoder = decoder_operations(
        config["decoder"], source=source, rows=target, keys=target, memory=config["encoder"]["width"]
    )
    output = Product(output_width(config), vocabulary, target)
    forward = _joined(encoder, decoder, Operations((output,)))
    times = 1 + BACKWARD
    products = tuple(product._replace(rows=product.rows * times) for product in forward.products)
    return Operations(products, forward.attention * times)


def decoding_operations(config: Config, *, source: float, target: float, vocabulary: int, beam: int) -> Operations:
    """The operations of beam search for one sentence: K hypotheses, for as many steps as its translation has tokens.

    The first step has one hypothesis. A search that goes on after the best translation has ended does more.
    """
    rows = 1 + (target - 1) * beam
    encoder = encoder_operations(config["encoder"], source=source)
    decoder = decoder_operations(
        config["decoder"], source=source, rows=rows, keys=(target + 1) / 2, memory=config["encoder"]["width"]
    )
    return _joined(encoder, decoder, Operations((Product(output_width(config), vocabulary, rows),)))


def encoder_operations(config: Config, *, source: float) -> Operations:
    """The operations of the encoder for one source."""
    layers = config["layers"]
    match config["kind"]:
        case "transformer":
            width, inner = config["width"], config["feed_forward"]
            products = (
                Product(width, width, 2 * layers * source),  # queries and output
                Product(width, 2 * width, layers * source),  # keys and values
                Product(width, inner, layers * source),
                Product(inner, width, layers * source),
            )
            return Operations(products, layers * attention_products(width, rows=source, keys=source))
        case "recurrent":
            _require(config, cell="lstm", bidirectional=True)
            direction = config["width"] // 2
            inputs = [config["embedding"], *[config["width"]] * (layers - 1)]
            return Operations(
                tuple(
                    Product(entering, 4 * direction, 2 * source) for width in inputs for entering in (width, direction)
                )
            )
        case kind:
            raise BenchmarkError(f"cannot count the operations of encoders of kind {kind!r}; expected {_KINDS}")


def decoder_operations(config: Config, *, source: float, rows: float, keys: float, memory: int) -> Operations:
    """The operations of the decoder for `rows` positions, which attend to `keys` target positions on average."""
    layers, width = config["layers"], config["width"]
    match config["kind"]:
        case "transformer":
            _require(config, mixer="attention")
            inner = config["feed_forward"]
            products = (
                Product(width, width, 4 * layers * rows),  # queries and output of both attentions
                Product(width, 2 * width, layers * rows),  # keys and values of the target
                Product(memory, 2 * width, layers * source),  # keys and values of the source
                Product(width, inner, layers * rows),
                Product(inner, width, layers * rows),
            )
            attention = attention_products(width, rows=rows, keys=keys) + attention_products(
                width, rows=rows, keys=source
            )
            return Operations(products, layers * attention)
        case "luong":
            _require(config, cell="lstm")
            _require(config["attention"], score="general")
            fed = width if config["input_feeding"] else 0
            inputs = [config["embedding"] + fed, *[width] * (layers - 1)]
            gates = tuple(Product(entering, 4 * width, rows) for each in inputs for entering in (each, width))
            score = Product(memory, width, source)
            combine = Product(memory + width, width, rows)
            return Operations((*gates, score, combine), attention_products(width, rows=rows, keys=source))
        case kind:
            raise BenchmarkError(f"cannot count the operations of decoders of kind {kind!r}; expected {_KINDS}")


def attention_products(width: int, *, rows: float, keys: float) -> float:
    """The multiply-adds of attention scores and of weighted means, for all heads together."""
    return 2 * rows * keys * width


def output_width(config: Config) -> int:
    """The width of the vectors that the output layer reads."""
    return int(config["decoder"]["width"])


_KINDS = "transformer, recurrent (an LSTM) or luong"


def _joined(*parts: Operations) -> Operations:
    return Operations(
        tuple(product for part in parts for product in part.products), sum(part.attention for part in parts)
    )


def _require(config: Config, **expected: Any) -> None:
    for key, value in expected.items():
        if config.get(key, value) != value:
            raise BenchmarkError(f"operations can only be counted for {key} = {value!r}; the model has {config[key]!r}")
