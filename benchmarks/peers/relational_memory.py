"""The relational memory core (Santoro et al. 2018) as a language model in plain PyTorch, as it is usually written: a loop
over words, in which every step computes all rows and autograd adds up the gradients of every step.

`network(words, **sizes)` has the sizes and the defaults of `[model]` of `name = "relational-memory"`.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

FORGET_BIAS, INPUT_BIAS = 1.0, 0.0


class Words(nn.Module):
    """Adaptive embedding and softmax (Grave et al. 2017) with the same tables for both. All clusters except the first
    share their projections, too."""

    def __init__(self, words, cutoffs, div_val, d_model, d_embed, init_std):
        super().__init__()
        bounds = [0, *cutoffs, words]
        self.clusters = list(zip(bounds, bounds[1:]))
        widths = [d_embed // div_val ** i for i in range(len(self.clusters))]
        self.scale = math.sqrt(d_model)
        self.tables = nn.ParameterList(torch.randn(end - begin, width) * init_std
                                       for (begin, end), width in zip(self.clusters, widths))
        self.biases = nn.ParameterList(torch.zeros(end - begin) for begin, end in self.clusters)
        projected = div_val > 1 or d_embed != d_model
        tables = len(widths) if div_val > 1 else 1  # clusters of one width have one projection
        self.into = nn.ParameterList(torch.randn(d_model, width) * 0.01 for width in widths[:tables] if projected)
        self.out = nn.Parameter(torch.randn(d_model, d_embed) * 0.01) if projected else None
        self.cluster_weight = nn.Parameter(torch.randn(len(cutoffs), d_embed) * init_std)
        self.cluster_bias = nn.Parameter(torch.zeros(len(cutoffs)))

    def projection(self, cluster):
        return self.into[min(cluster, len(self.into) - 1)]

    def embed(self, tokens):
        flat = tokens.flatten()
        vectors = self.tables[0].new_zeros(flat.numel(), round(self.scale ** 2))
        for i, (begin, end) in enumerate(self.clusters):
            positions = ((flat >= begin) & (flat < end)).nonzero().squeeze(1)
            own = F.embedding(flat[positions] - begin, self.tables[i])
            if self.out is not None:
                own = F.linear(own, self.projection(i))
            vectors = vectors.index_copy(0, positions, own.to(vectors.dtype))  # own may be of autocast
        return vectors.view(*tokens.shape, -1) * self.scale

    def cost(self, hidden, targets):
        """The mean of −log p over all targets."""
        hidden, targets = hidden.flatten(0, -2), targets.flatten()
        first = hidden if self.out is None else hidden @ self.out
        scores = F.linear(first, torch.cat([self.tables[0], self.cluster_weight]),
                          torch.cat([self.biases[0], self.cluster_bias]))
        head = torch.log_softmax(scores, -1)
        size, total = self.clusters[0][1], 0.0
        for i, (begin, end) in enumerate(self.clusters):
            positions = ((targets >= begin) & (targets < end)).nonzero().squeeze(1)
            if i == 0:
                log_p = head[positions].gather(1, targets[positions, None])
            else:
                own = hidden[positions] if self.out is None else hidden[positions] @ self.projection(i)
                within = torch.log_softmax(F.linear(own, self.tables[i], self.biases[i]), -1)
                log_p = head[positions, size + i - 1] + within.gather(1, targets[positions, None] - begin).squeeze(1)
            total = total - log_p.sum()
        return total / targets.numel()


class RelationalMemory(nn.Module):
    def __init__(self, words, cutoffs=(20000, 40000, 200000), div_val=1, d_model=512, d_embed=512, slots=1, heads=4,
                 head_size=625, blocks=1, mlp_layers=5, gates="unit", embedding_dropout=0.5, output_dropout=0.0,
                 init_std=0.02):
        super().__init__()
        size = heads * head_size
        self.slots, self.heads, self.head_size, self.gates = slots, heads, head_size, gates
        self.words = Words(words, cutoffs, div_val, d_model, d_embed, init_std)
        self.input = nn.Linear(d_model, size)
        self.qkv = nn.ModuleList(nn.Linear(size, 3 * size) for _ in range(blocks))
        self.qkv_norm = nn.ModuleList(nn.LayerNorm(3 * size) for _ in range(blocks))
        self.attention_norm = nn.ModuleList(nn.LayerNorm(size) for _ in range(blocks))
        self.mlp = nn.ModuleList(nn.Linear(size, size) for _ in range(mlp_layers))
        self.mlp_norm = nn.ModuleList(nn.LayerNorm(size) for _ in range(blocks))
        if gates != "none":
            count = 2 * (size if gates == "unit" else 1)
            self.word_gates, self.memory_gates = nn.Linear(size, count), nn.Linear(size, count)
        self.output = nn.Linear(slots * size, d_model)
        self.embedding_dropout, self.output_dropout = nn.Dropout(embedding_dropout), nn.Dropout(output_dropout)

    def first_state(self, batch):
        weight = self.input.weight
        return torch.eye(self.slots, weight.shape[0], device=weight.device, dtype=weight.dtype).repeat(batch, 1, 1)

    def attend(self, rows, block):
        batch, count, size = rows.shape
        qkv = self.qkv_norm[block](self.qkv[block](rows))
        q, k, v = qkv.view(batch, count, 3, self.heads, self.head_size).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.head_size), -1)
        return (weights @ v).transpose(1, 2).reshape(batch, count, size)

    def step(self, word, memory):
        x = self.input(word).unsqueeze(1)
        rows = torch.cat([memory, x], 1)
        for block, norm in enumerate(self.mlp_norm):
            rows = self.attention_norm[block](rows + self.attend(rows, block))
            hidden = rows
            for i, layer in enumerate(self.mlp):
                hidden = layer(torch.relu(hidden) if i > 0 else hidden)
            rows = norm(rows + hidden)
        rows = rows[:, :-1]
        if self.gates == "none":
            return rows
        write, keep = (self.word_gates(x) + self.memory_gates(torch.tanh(memory))).chunk(2, -1)
        return torch.sigmoid(write + INPUT_BIAS) * torch.tanh(rows) + torch.sigmoid(keep + FORGET_BIAS) * memory

    def forward(self, tokens, targets, state=None):
        """(the mean cost of a target, the memory after the last word)"""
        memory = self.first_state(tokens.shape[0]) if state is None else state
        words, outputs = self.embedding_dropout(self.words.embed(tokens)), []
        for word in words.unbind(1):
            memory = self.step(word, memory)
            outputs.append(memory.flatten(1))
        hidden = self.output(self.output_dropout(torch.stack(outputs, 1)))
        return self.words.cost(hidden, targets), memory.detach()


def network(words, **sizes):
    return RelationalMemory(words, **sizes)
