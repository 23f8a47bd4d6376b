"""The layers of DEQ-Transformers and of Transformer-XL in plain torch."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

WORDS, CUTOFFS, DIV_VAL = 267735, (20000, 40000, 200000), 4  # WikiText-103's


@dataclass(frozen=True)
class Sizes:
    d_model: int
    d_inner: int
    heads: int
    d_head: int
    words: int = WORDS
    cutoffs: tuple = CUTOFFS
    div_val: int = DIV_VAL

    @property
    def attended(self):
        return self.heads * self.d_head

    def clusters(self):
        """(the first word, the word after the last, the width) of each."""
        bounds = (0, *self.cutoffs, self.words)
        return [(begin, end, self.d_model // self.div_val ** i)
                for i, (begin, end) in enumerate(zip(bounds, bounds[1:]))]


class AdaptiveEmbedding(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.d_model, self.clusters = sizes.d_model, sizes.clusters()
        self.emb_layers = nn.ModuleList(nn.Embedding(end - begin, width) for begin, end, width in self.clusters)
        self.emb_projs = nn.ModuleList(nn.Linear(width, sizes.d_model, bias=False) for _, _, width in self.clusters)

    def forward(self, tokens):
        flat = tokens.flatten()
        vectors = self.emb_projs[0].weight.new_zeros(flat.numel(), self.d_model)
        for i, (begin, end, _) in enumerate(self.clusters):
            positions = ((flat >= begin) & (flat < end)).nonzero().squeeze(1)
            if positions.numel() > 0:
                own = self.emb_projs[i](self.emb_layers[i](flat[positions] - begin))
                vectors = vectors.index_copy(0, positions, own.to(vectors.dtype))
        return vectors.view(*tokens.shape, self.d_model) * math.sqrt(self.d_model)


class AdaptiveSoftmax(nn.Module):
    """Tables are the embedding's, and so are the projections of all clusters except the first."""

    def __init__(self, sizes, embedding):
        super().__init__()
        self.clusters = sizes.clusters()
        self.cluster_weight = nn.Parameter(torch.randn(len(sizes.cutoffs), sizes.d_model) * 0.01)
        self.cluster_bias = nn.Parameter(torch.zeros(len(sizes.cutoffs)))
        self.out_layers = nn.ModuleList(nn.Linear(width, end - begin) for begin, end, width in self.clusters)
        self.out_projs = nn.ModuleList(nn.Linear(width, sizes.d_model, bias=False) for _, _, width in self.clusters)
        for i in range(len(self.clusters)):
            self.out_layers[i].weight = embedding.emb_layers[i].weight
            if i > 0:
                self.out_projs[i].weight = embedding.emb_projs[i].weight

    def log_softmax(self, i, hidden):
        weight, bias = self.out_layers[i].weight, self.out_layers[i].bias
        if i == 0:
            weight, bias = torch.cat([weight, self.cluster_weight]), torch.cat([bias, self.cluster_bias])
        return F.log_softmax(F.linear(hidden @ self.out_projs[i].weight, weight, bias), dim=1)

    def forward(self, hidden, targets):
        hidden, flat = hidden.flatten(0, 1), targets.flatten()
        first = self.log_softmax(0, hidden)
        nll = torch.zeros_like(hidden[:, 0])
        for i, (begin, end, _) in enumerate(self.clusters):
            positions = ((flat >= begin) & (flat < end)).nonzero().squeeze(1)
            if positions.numel() == 0:
                continue
            words = flat[positions] - begin
            if i == 0:
                log_p = first[positions, words]
            else:
                log_p = first[positions, -i] + self.log_softmax(i, hidden[positions]).gather(1, words[:, None]).squeeze(1)
            nll = nll.index_copy(0, positions, -log_p.to(nll.dtype))
        return nll.view_as(targets)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes, width = sizes, sizes.attended
        self.qkv_net = nn.Linear(sizes.d_model, 3 * width, bias=False)
        self.r_net = nn.Linear(sizes.d_model, width, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(sizes.heads, sizes.d_head) * 0.01)
        self.r_r_bias = nn.Parameter(torch.randn(sizes.heads, sizes.d_head) * 0.01)
        self.o_net = nn.Linear(width, sizes.d_model)

    def forward(self, z, past, positions, injection, mask):
        batch, queries, d_model = z.shape
        heads, d_head = self.sizes.heads, self.sizes.d_head
        w = self.qkv_net(torch.cat([past, z], 1)) + injection
        q, k, v = w.view(batch, -1, 3, heads, d_head).unbind(2)
        q, r = q[:, -queries:], self.r_net(positions).view(-1, heads, d_head)
        by_content = torch.einsum("bihd,bjhd->bhij", q + self.r_w_bias, k)
        by_position = shifted(torch.einsum("bihd,jhd->bhij", q + self.r_r_bias, r))
        scores = (by_content + by_position) / math.sqrt(d_head)
        p = scores.masked_fill(mask, -math.inf).softmax(-1)
        seen = torch.einsum("bhij,bjhd->bihd", p, v).reshape(batch, queries, -1)
        return F.layer_norm(self.o_net(seen) + z, (d_model,))


def shifted(scores):
    """Row i moves left until its distance 0 is in its own column, q − 1 − i before the last."""
    batch, heads, queries, keys = scores.shape
    padded = F.pad(scores, (1, 0)).view(batch, heads, keys + 1, queries)
    return padded[:, :, 1:].reshape(batch, heads, queries, keys)


class Positions(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** -(torch.arange(0.0, d_model, 2.0) / d_model))

    def forward(self, keys):
        """Of the distances from the oldest key to the newest."""
        angles = torch.outer(torch.arange(keys - 1, -1, -1.0, device=self.inv_freq.device), self.inv_freq)
        return torch.cat([angles.sin(), angles.cos()], 1)


def causal_mask(queries, keys, device):
    return torch.ones(queries, keys, dtype=torch.bool, device=device).triu(1 + keys - queries)


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.ff1_net, self.ff2_net = nn.Linear(sizes.d_model, sizes.d_inner), nn.Linear(sizes.d_inner, sizes.d_model)

    def forward(self, x):
        return F.layer_norm(self.ff2_net(F.relu(self.ff1_net(x))) + x, x.shape[-1:])
