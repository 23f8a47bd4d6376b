"""A DEQ-Transformer language model written with torchdeq: the peer of compare_transformer.py and of compare_gpu.py.

Parameters and buffers have the names of libdeq's. Weight norm and solvers are torchdeq's own. As in public models of
this kind, f sees memory and text joined, and makes keys and values of both.
"""

import torch
from torch import nn
from torchdeq import get_deq
from torchdeq.loss import jac_reg
from torchdeq.norm import apply_norm, reset_norm

from peers.transformer_layers import (AdaptiveEmbedding, AdaptiveSoftmax, Attention, FeedForward, Positions, Sizes,
                                      causal_mask)

SMALL = Sizes(128, 2048, 8, 16)
PUBLISHED = Sizes(700, 48000, 10, 70)


class Layer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.dec_attn, self.pos_ff = Attention(sizes), FeedForward(sizes)

    def forward(self, z, *given):
        return self.pos_ff(self.dec_attn(z, *given))


class TorchdeqTransformer(nn.Module):
    """`forward` and `adjoint` are numbers of evaluations, with a tolerance that is never met."""

    def __init__(self, solver, forward, adjoint, penalty, sizes=SMALL):
        super().__init__()
        self.word_emb = AdaptiveEmbedding(sizes)
        self.inject_conv = nn.Linear(sizes.d_model, 3 * sizes.attended)
        self.pos_emb = Positions(sizes.d_model)
        self.func = Layer(sizes)
        apply_norm(self.func, "weight_norm")
        self.crit = AdaptiveSoftmax(sizes, self.word_emb)
        self.penalty = penalty
        # torchdeq's Broyden evaluates the start before it counts.
        first = 1 if solver == "broyden" else 0
        # hook_ift: of torchdeq's two implicit gradients the one that does not evaluate f anew.
        self.deq = get_deq(f_solver=solver, b_solver=solver, f_max_iter=forward - first, b_max_iter=adjoint - first,
                           f_tol=0.0, b_tol=0.0, f_stop_mode="rel", b_stop_mode="rel", ift=True, hook_ift=True)

    def given(self, tokens, past, past_injection):
        """What f needs beside the state, and its normalised weights: once per solve."""
        reset_norm(self.func)
        queries, keys = tokens.shape[1], past.shape[1] + tokens.shape[1]
        injection = torch.cat([past_injection, self.inject_conv(self.word_emb(tokens))], 1)
        return past, self.pos_emb(keys), injection, causal_mask(queries, keys, tokens.device)

    def forward(self, tokens, targets, past, past_injection):
        """The cost of every target, the next memory and, in training with the penalty, the Jacobian term."""
        given = self.given(tokens, past, past_injection)

        def f(z):
            return self.func(z, *given)

        states, _ = self.deq(f, past.new_zeros(*tokens.shape, past.shape[-1]))
        z = states[-1]
        kept = past.shape[1]
        memory = [torch.cat([past, z], 1)[:, -kept:].detach(), given[2][:, -kept:].detach()]
        return self.crit(z, targets), memory, self.jacobian(f, z) if self.penalty else 0.0

    def jacobian(self, f, z):
        z = z.detach().requires_grad_()
        return jac_reg(f(z), z)
