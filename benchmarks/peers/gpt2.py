"""GPT-2 in plain torch, with libdeq's vocabulary of clusters: what libdeq's own is compared with.

Parameters have the names of libdeq's. The state is the last words of the text before, which are read again.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Vocabulary(nn.Module):
    """Tables of words by cluster, each narrower than the one before, and projected where they are not as wide as d_model."""

    def __init__(self, words, cutoffs, d_model, div_val, std):
        super().__init__()
        self.bounds = (0, *cutoffs, words)
        sizes = [end - begin for begin, end in zip(self.bounds, self.bounds[1:])]
        self.emb_layers = nn.ModuleList(nn.Embedding(size, d_model // div_val ** i) for i, size in enumerate(sizes))
        for table in self.emb_layers:
            nn.init.normal_(table.weight, std=std)
        self.emb_projs = nn.ParameterList(
            torch.randn(d_model, table.embedding_dim) / math.sqrt(d_model) for table in self.emb_layers if div_val > 1)

    def where(self, words, i):
        return ((words >= self.bounds[i]) & (words < self.bounds[i + 1])).nonzero().squeeze(1)

    def forward(self, tokens):
        flat, vectors = tokens.flatten(), None
        for i, table in enumerate(self.emb_layers):
            positions = self.where(flat, i)
            own = table(flat[positions] - self.bounds[i])
            own = own @ self.emb_projs[i].t() if len(self.emb_projs) > 0 else own
            vectors = own.new_zeros(flat.numel(), own.shape[1]) if vectors is None else vectors
            vectors = vectors.index_copy(0, positions, own)
        return vectors.view(*tokens.shape, -1)


class Softmax(nn.Module):
    """Tables are the vocabulary's, and so are the projections of all clusters except the first."""

    def __init__(self, vocabulary, std):
        super().__init__()
        self.vocabulary = [vocabulary]  # not a module of this one
        tables, projections = vocabulary.emb_layers, vocabulary.emb_projs
        self.out_layers = nn.ModuleList(nn.ParameterDict({"bias": torch.zeros(table.num_embeddings)}) for table in tables)
        self.out_projs = nn.ParameterList(
            torch.randn_like(projections[0]) / math.sqrt(projections[0].shape[0]) for _ in projections[:1])
        if len(tables) > 1:
            self.cluster_weight = nn.Parameter(torch.randn(len(tables) - 1, tables[0].embedding_dim) * std)
            self.cluster_bias = nn.Parameter(torch.zeros(len(tables) - 1))

    def log_p(self, i, hidden):
        vocabulary = self.vocabulary[0]
        weight, bias = vocabulary.emb_layers[i].weight, self.out_layers[i]["bias"]
        if len(vocabulary.emb_projs) > 0:
            hidden = hidden @ (self.out_projs[0] if i == 0 else vocabulary.emb_projs[i])
        if i == 0 and len(vocabulary.emb_layers) > 1:
            weight, bias = torch.cat([weight, self.cluster_weight]), torch.cat([bias, self.cluster_bias])
        return F.log_softmax(F.linear(hidden, weight, bias), dim=1)

    def forward(self, hidden, targets):
        vocabulary, hidden, flat = self.vocabulary[0], hidden.flatten(0, 1), targets.flatten()
        first = self.log_p(0, hidden)
        # The clusters come after the first one's words, the last one first.
        columns = flat.clone()
        parts = [vocabulary.where(flat, i) for i in range(len(vocabulary.emb_layers))]
        for i, positions in list(enumerate(parts))[1:]:
            columns[positions] = first.shape[1] - i
        nll = -first.gather(1, columns[:, None]).squeeze(1)
        for i, positions in list(enumerate(parts))[1:]:
            words = flat[positions] - vocabulary.bounds[i]
            within = self.log_p(i, hidden[positions]).gather(1, words[:, None]).squeeze(1)
            nll = nll.index_add(0, positions, -within)
        return nll.view_as(targets)


class Layer(nn.Module):
    def __init__(self, d_model, heads, d_inner, dropout, attention_dropout):
        super().__init__()
        self.heads, self.dropout, self.attention_dropout = heads, dropout, attention_dropout
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.attention_out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.inner, self.outer = nn.Linear(d_model, d_inner), nn.Linear(d_inner, d_model)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                              dropout_p=self.attention_dropout if self.training else 0.0)
        seen = self.attention_out(seen.transpose(1, 2).reshape(batch, length, width))
        x = x + F.dropout(seen, self.dropout, self.training)
        inner = F.gelu(self.inner(self.feed_forward_norm(x)), approximate="tanh")
        return x + F.dropout(self.outer(inner), self.dropout, self.training)


class Gpt2(nn.Module):
    def __init__(self, words, layers=4, d_model=400, heads=10, d_inner=1600, positions=300, memory=150,
                 cutoffs=(20000, 40000), div_val=4, dropout=0.06, attention_dropout=0.0, init_std=0.02):
        super().__init__()
        self.memory, self.dropout = memory, dropout
        self.word_emb = Vocabulary(words, cutoffs, d_model, div_val, init_std)
        self.position_emb = nn.Embedding(positions, d_model)
        self.layers = nn.ModuleList(Layer(d_model, heads, d_inner, dropout, attention_dropout) for _ in range(layers))
        self.final_norm = nn.LayerNorm(d_model)
        self.crit = Softmax(self.word_emb, init_std)
        nn.init.normal_(self.position_emb.weight, std=init_std)
        for layer in self.layers:
            for linear in (layer.qkv, layer.inner, layer.attention_out, layer.outer):
                adds = linear in (layer.attention_out, layer.outer)
                nn.init.normal_(linear.weight, std=init_std / math.sqrt(2 * layers) if adds else init_std)
                nn.init.zeros_(linear.bias)

    def forward(self, tokens, targets, state=None):
        """The mean cost of the targets, and what the next segment is to be read after."""
        window = tokens if state is None else torch.cat([state, tokens], 1)
        x = self.word_emb(window) + self.position_emb.weight[:window.shape[1]]
        x = F.dropout(x, self.dropout, self.training)
        for layer in self.layers:
            x = layer(x)
        nll = self.crit(self.final_norm(x[:, -tokens.shape[1]:]), targets)
        return nll.mean(), window[:, -self.memory:] if self.memory > 0 else None


def network(words, **sizes):
    """The model of configs/books/gpt2.toml; cutoffs are those of its vocabulary."""
    return Gpt2(words, **sizes)
