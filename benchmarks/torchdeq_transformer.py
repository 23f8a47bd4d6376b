"""A DEQ-Transformer language model written with torchdeq: the peer of benchmarks/compare_transformer.py.

Parameters and buffers have the names of libdeq's. Weight norm and solvers are torchdeq's own. As in public models of
this kind, f sees memory and text joined, and makes keys and values of both.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torchdeq import get_deq
from torchdeq.loss import jac_reg
from torchdeq.norm import apply_norm, reset_norm

WORDS, CUTOFFS, DIV_VAL = 267735, (20000, 40000, 200000), 4  # WikiText-103's
D_MODEL, D_INNER, HEADS, D_HEAD = 128, 2048, 8, 16
BOUNDS = (0, *CUTOFFS, WORDS)
CLUSTERS = [(BOUNDS[i], BOUNDS[i + 1], D_MODEL // DIV_VAL ** i) for i in range(len(CUTOFFS) + 1)]


class AdaptiveEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb_layers = nn.ModuleList(nn.Embedding(end - begin, width) for begin, end, width in CLUSTERS)
        self.emb_projs = nn.ModuleList(nn.Linear(width, D_MODEL, bias=False) for _, _, width in CLUSTERS)

    def forward(self, tokens):
        flat = tokens.flatten()
        vectors = self.emb_projs[0].weight.new_zeros(flat.numel(), D_MODEL)
        for i, (begin, end, _) in enumerate(CLUSTERS):
            places = ((flat >= begin) & (flat < end)).nonzero().squeeze(1)
            if places.numel() > 0:
                vectors = vectors.index_copy(0, places, self.emb_projs[i](self.emb_layers[i](flat[places] - begin)))
        return vectors.view(*tokens.shape, D_MODEL) * math.sqrt(D_MODEL)


class AdaptiveSoftmax(nn.Module):
    """Tables are the embedding's, and so are the projections of all clusters but the first."""

    def __init__(self, embedding):
        super().__init__()
        self.cluster_weight = nn.Parameter(torch.randn(len(CUTOFFS), D_MODEL) * 0.01)
        self.cluster_bias = nn.Parameter(torch.zeros(len(CUTOFFS)))
        self.out_layers = nn.ModuleList(nn.Linear(width, end - begin) for begin, end, width in CLUSTERS)
        self.out_projs = nn.ModuleList(nn.Linear(width, D_MODEL, bias=False) for _, _, width in CLUSTERS)
        for i in range(len(CLUSTERS)):
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
        for i, (begin, end, _) in enumerate(CLUSTERS):
            places = ((flat >= begin) & (flat < end)).nonzero().squeeze(1)
            if places.numel() == 0:
                continue
            words = flat[places] - begin
            if i == 0:
                log_p = first[places, words]
            else:
                log_p = first[places, -i] + self.log_softmax(i, hidden[places]).gather(1, words[:, None]).squeeze(1)
            nll = nll.index_copy(0, places, -log_p)
        return nll.view_as(targets)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        width = HEADS * D_HEAD
        self.qkv_net = nn.Linear(D_MODEL, 3 * width, bias=False)
        self.r_net = nn.Linear(D_MODEL, width, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(HEADS, D_HEAD) * 0.01)
        self.r_r_bias = nn.Parameter(torch.randn(HEADS, D_HEAD) * 0.01)
        self.o_net = nn.Linear(width, D_MODEL)

    def forward(self, z, past, positions, injection, mask):
        batch, queries, _ = z.shape
        w = self.qkv_net(torch.cat([past, z], 1)) + injection
        q, k, v = w.view(batch, -1, 3, HEADS, D_HEAD).unbind(2)
        q, r = q[:, -queries:], self.r_net(positions).view(-1, HEADS, D_HEAD)
        by_content = torch.einsum("bihd,bjhd->bhij", q + self.r_w_bias, k)
        by_position = shifted(torch.einsum("bihd,jhd->bhij", q + self.r_r_bias, r))
        scores = (by_content + by_position) / math.sqrt(D_HEAD)
        p = scores.masked_fill(mask, -math.inf).softmax(-1)
        seen = torch.einsum("bhij,bjhd->bihd", p, v).reshape(batch, queries, -1)
        return F.layer_norm(self.o_net(seen) + z, (D_MODEL,))


def shifted(scores):
    """Row i moves left until its distance 0 is in its own column, the last but q − 1 − i."""
    batch, heads, queries, keys = scores.shape
    padded = F.pad(scores, (1, 0)).view(batch, heads, keys + 1, queries)
    return padded[:, :, 1:].reshape(batch, heads, queries, keys)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff1_net, self.ff2_net = nn.Linear(D_MODEL, D_INNER), nn.Linear(D_INNER, D_MODEL)

    def forward(self, x):
        return F.layer_norm(self.ff2_net(F.relu(self.ff1_net(x))) + x, (D_MODEL,))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.dec_attn, self.pos_ff = Attention(), FeedForward()

    def forward(self, z, *given):
        return self.pos_ff(self.dec_attn(z, *given))


class TorchdeqTransformer(nn.Module):
    """`forward` and `adjoint` are numbers of evaluations, with a tolerance that is never met."""

    def __init__(self, solver, forward, adjoint, penalty):
        super().__init__()
        self.word_emb = AdaptiveEmbedding()
        self.inject_conv = nn.Linear(D_MODEL, 3 * HEADS * D_HEAD)
        self.pos_emb = nn.Module()
        self.pos_emb.register_buffer("inv_freq", 10000.0 ** -(torch.arange(0.0, D_MODEL, 2.0) / D_MODEL))
        self.func = Layer()
        apply_norm(self.func, "weight_norm")
        self.crit = AdaptiveSoftmax(self.word_emb)
        self.penalty = penalty
        # torchdeq's Broyden evaluates the start before it counts.
        first = 1 if solver == "broyden" else 0
        # hook_ift: of torchdeq's two implicit gradients the one that does not evaluate f anew.
        self.deq = get_deq(f_solver=solver, b_solver=solver, f_max_iter=forward - first, b_max_iter=adjoint - first,
                           f_tol=0.0, b_tol=0.0, f_stop_mode="rel", b_stop_mode="rel", ift=True, hook_ift=True)

    def given(self, tokens, past, past_injection):
        """What f needs beside the state, and its normalised weights: once a solve."""
        reset_norm(self.func)
        queries, keys = tokens.shape[1], past.shape[1] + tokens.shape[1]
        injection = torch.cat([past_injection, self.inject_conv(self.word_emb(tokens))], 1)
        angles = torch.outer(torch.arange(keys - 1, -1, -1.0), self.pos_emb.inv_freq)
        positions = torch.cat([angles.sin(), angles.cos()], 1)
        mask = torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)
        return past, positions, injection, mask

    def forward(self, tokens, targets, past, past_injection):
        """The cost of every target, the next memory and, in training with the penalty, the Jacobian term."""
        given = self.given(tokens, past, past_injection)

        def f(z):
            return self.func(z, *given)

        states, _ = self.deq(f, torch.zeros(*tokens.shape, D_MODEL))
        z = states[-1]
        kept = past.shape[1]
        memory = [torch.cat([past, z], 1)[:, -kept:].detach(), given[2][:, -kept:].detach()]
        return self.crit(z, targets), memory, self.jacobian(f, z) if self.penalty else 0.0

    def jacobian(self, f, z):
        z = z.detach().requires_grad_()
        return jac_reg(f(z), z)
