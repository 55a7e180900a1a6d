"""Weights of Calque's LSTM under OpenNMT-py's names, computed with as OpenNMT-py does it."""

from pathlib import Path

import torch
from benchmarks.peers.to_opennmt import renamed
from torch import Tensor, nn

from calque.config import read_toml
from calque.folders.weights import weights_of
from calque.models.model import Model, ModelConfig, Sizes
from calque.tensors import Padded

LSTM = Path(__file__).parents[3] / "benchmarks" / "lstm.toml"
WORDS = 30


def opennmt(weights: dict[str, Tensor], source: Tensor, target: Tensor) -> Tensor:
    """Logits [1,T,V] by OpenNMT-py's equations (onmt.encoders.rnn_encoder, onmt.decoders.decoder, global_attention)."""
    words = weights["encoder.embeddings.make_embedding.emb_luts.0.weight"]
    encoder = nn.LSTM(256, 128, num_layers=2, bidirectional=True, batch_first=True)
    prefix = "encoder.rnn."
    encoder.load_state_dict({n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)})
    memory, finals = encoder(words[source])
    hidden, cell = (torch.cat([part[0::2], part[1::2]], dim=2) for part in finals)
    states = [(hidden[layer], cell[layer]) for layer in range(2)]
    cells = [nn.LSTMCell(512, 256), nn.LSTMCell(256, 256)]
    for number, layer in enumerate(cells):
        prefix = f"decoder.rnn.layers.{number}."
        layer.load_state_dict({n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)})
    feed, logits = torch.zeros(1, 256), []
    for word in target[0]:
        inputs = torch.cat([words[word][None], feed], dim=1)
        for number, layer in enumerate(cells):
            states[number] = layer(inputs, states[number])
            inputs = states[number][0]
        query = inputs @ weights["decoder.attn.linear_in.weight"].T
        shares = (query[:, None] @ memory.transpose(1, 2)).softmax(dim=-1)
        joined = torch.cat([(shares @ memory)[:, 0], inputs], dim=1)
        feed = torch.tanh(joined @ weights["decoder.attn.linear_out.weight"].T)
        logits.append(feed @ weights["generator.weight"].T + weights["generator.bias"])
    return torch.stack(logits, dim=1)


def test_the_weights_compute_the_same_under_their_new_names() -> None:
    torch.manual_seed(1)
    config = ModelConfig.model_validate(read_toml(LSTM)["model"])
    model = Model(config, sizes=Sizes(WORDS, WORDS, joint=True)).eval()
    nn.init.normal_(model.output.get_parameter("bias"))
    rows = torch.randperm(WORDS)  # the word that OpenNMT-py's id stands for
    ids = rows.argsort()
    source, target = torch.randint(4, WORDS, (1, 6)), torch.randint(4, WORDS, (1, 5))
    with torch.no_grad():
        expected = model.logits(model(Padded(source, torch.tensor([6])), target).hidden)
        found = opennmt(renamed(weights_of(model), rows=rows), ids[source], ids[target])
    torch.testing.assert_close(found[..., ids], expected, rtol=1e-4, atol=1e-5)
