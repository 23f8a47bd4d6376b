"""AWD-QRNN in plain torch, pooled by a loop over time: what libdeq's is compared with.

Parameters have the names of libdeq's; those that are tied appear under the softmax's name too.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Words(nn.Module):
    """Clusters of words: a table for all of them, or with div_val > 1 narrower and narrower ones, each projected."""

    def __init__(self, words, cutoffs, d_embed, div_val, init_std):
        super().__init__()
        self.bounds = (0, *cutoffs, words)
        self.one_table = div_val == 1
        clusters = range(1 if self.one_table else len(cutoffs) + 1)
        widths = [d_embed // div_val ** i for i in clusters]
        sizes = [words] if self.one_table else [self.bounds[i + 1] - self.bounds[i] for i in clusters]
        self.emb_layers = nn.ModuleList(nn.Embedding(size, width) for size, width in zip(sizes, widths))
        for table in self.emb_layers:
            nn.init.normal_(table.weight, std=init_std)
        self.emb_projs = nn.ParameterList() if self.one_table else nn.ParameterList(
            torch.randn(d_embed, width) / math.sqrt(d_embed) for width in widths)

    def forward(self, tokens):
        if self.one_table:
            return self.emb_layers[0](tokens)
        flat = tokens.flatten()
        vectors = None
        for i, (begin, end) in enumerate(zip(self.bounds, self.bounds[1:])):
            positions = ((flat >= begin) & (flat < end)).nonzero().squeeze(1)
            own = F.linear(self.emb_layers[i](flat[positions] - begin), self.emb_projs[i])
            if vectors is None:
                vectors = own.new_zeros(flat.numel(), own.shape[1])
            vectors = vectors.index_copy(0, positions, own)
        return vectors.view(*tokens.shape, -1)


class Costs(nn.Module):
    """−log p of words; the tables are the embedding's, and so are the projections of all clusters but the first."""

    def __init__(self, words, d_embed, init_std):
        super().__init__()
        self.bounds, self.one_table = words.bounds, words.one_table
        others = len(self.bounds) - 2
        self.cluster_weight = nn.Parameter(torch.randn(others, d_embed) * init_std)
        self.cluster_bias = nn.Parameter(torch.zeros(others))
        self.out_layers = nn.ModuleList()
        for table in words.emb_layers:
            layer = nn.Linear(*reversed(table.weight.shape))
            layer.weight = table.weight
            nn.init.zeros_(layer.bias)
            self.out_layers.append(layer)
        self.out_projs = nn.ParameterList() if self.one_table else nn.ParameterList(
            torch.randn_like(p) / math.sqrt(d_embed) if i == 0 else p for i, p in enumerate(words.emb_projs))

    def log_p(self, i, hidden):
        if self.one_table:
            own = slice(self.bounds[i], self.bounds[i + 1])
            weight, bias = self.out_layers[0].weight[own], self.out_layers[0].bias[own]
        else:
            weight, bias = self.out_layers[i].weight, self.out_layers[i].bias
            hidden = hidden @ self.out_projs[i]
        if i == 0:
            weight, bias = torch.cat([weight, self.cluster_weight]), torch.cat([bias, self.cluster_bias])
        return F.log_softmax(F.linear(hidden, weight, bias), dim=1, dtype=torch.float32)

    def forward(self, hidden, targets):
        hidden, flat = hidden.flatten(0, 1), targets.flatten()
        first = self.log_p(0, hidden)
        sums = []
        for i, (begin, end) in enumerate(zip(self.bounds, self.bounds[1:])):
            positions = ((flat >= begin) & (flat < end)).nonzero().squeeze(1)
            words = flat[positions] - begin
            if i == 0:
                sums.append(first[positions, words].sum())
            elif positions.numel() > 0:
                sums.append(first[positions, -i].sum())
                sums.append(self.log_p(i, hidden[positions]).gather(1, words[:, None]).sum())
        return -sum(sums) / flat.numel()


def pooled(y, c):
    """The outputs for pre-activations [B, T, 3H], and the state after them."""
    z, f, o = y.float().chunk(3, 2)
    states = []
    # Unbound, or the gradient of each position would be a tensor as large as all.
    for candidate, forget in zip(z.tanh().unbind(1), f.sigmoid().unbind(1)):
        c = forget * c + (1 - forget) * candidate
        states.append(c)
    return o.sigmoid() * torch.stack(states, 1), c


class AwdQrnn(nn.Module):
    def __init__(self, words, layers, d_embed, d_hidden, window, cutoffs, div_val, dropout, init_std):
        super().__init__()
        self.window, self.dropout = window, dropout
        self.word_emb = Words(words, cutoffs, d_embed, div_val, init_std)
        inputs = [window * d_embed] + [d_hidden] * (layers - 1)
        outputs = [d_hidden] * (layers - 1) + [d_embed]
        self.layers = nn.ModuleList(nn.Linear(n, 3 * m) for n, m in zip(inputs, outputs))
        self.crit = Costs(self.word_emb, d_embed, init_std)

    def dropped(self, x):
        """A stream's positions share what is dropped of their features."""
        if not self.training or self.dropout == 0:
            return x
        mask = torch.empty(x.shape[0], 1, x.shape[2], device=x.device).bernoulli_(1 - self.dropout)
        return x * (mask / (1 - self.dropout))

    def forward(self, tokens, targets, state=None):
        """The mean cost of the targets, and the state that goes on to the next segment."""
        x = self.dropped(self.word_emb(tokens))
        batch, before = x.shape[0], self.window - 1
        past = x.new_zeros(batch, before, x.shape[2]) if state is None else state[0]
        seen = torch.cat([past, x], 1)
        after = [seen[:, seen.shape[1] - before:].detach()]
        x = torch.cat([seen[:, before - i:seen.shape[1] - i] for i in range(self.window)], 2)
        for i, layer in enumerate(self.layers):
            x = self.dropped(x) if i > 0 else x
            y = layer(x)
            c = y.new_zeros(batch, y.shape[2] // 3, dtype=torch.float32) if state is None else state[i + 1]
            x, c = pooled(y, c)
            after.append(c.detach())
        return self.crit(self.dropped(x), targets), after


def network(words, layers=4, d_embed=400, d_hidden=2500, window=2, cutoffs=(2800, 20000, 76000), div_val=1,
            dropout=0.1, init_std=0.058):
    """For a text of so many different words; the sizes are the published ones for WikiText-103."""
    return AwdQrnn(words, layers, d_embed, d_hidden, window, cutoffs, div_val, dropout, init_std)
