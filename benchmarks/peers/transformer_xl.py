"""Transformer-XL in plain torch, with the layers of the DEQ-Transformer beside it: what a DEQ is compared with."""

import torch
from torch import nn

from peers.transformer_layers import (AdaptiveEmbedding, AdaptiveSoftmax, Attention, FeedForward, Positions, Sizes,
                                      causal_mask)

PUBLISHED = Sizes(410, 2100, 10, 41)
LAYERS = 18


class TransformerXl(nn.Module):
    def __init__(self, sizes=PUBLISHED, layers=LAYERS, remembered=150):
        super().__init__()
        self.remembered = remembered
        self.word_emb = AdaptiveEmbedding(sizes)
        self.pos_emb = Positions(sizes.d_model)
        self.layers = nn.ModuleList(nn.ModuleList([Attention(sizes), FeedForward(sizes)]) for _ in range(layers))
        self.crit = AdaptiveSoftmax(sizes, self.word_emb)

    def forward(self, tokens, targets, past=None):
        """(the mean cost of a target, each layer's memory after the last word)"""
        x = self.word_emb(tokens)
        past = [x[:, :0]] * len(self.layers) if past is None else past
        keys = past[0].shape[1] + tokens.shape[1]
        positions, mask = self.pos_emb(keys), causal_mask(tokens.shape[1], keys, tokens.device)
        after = []
        for (attend, feed_forward), memory in zip(self.layers, past):
            after.append(torch.cat([memory, x], 1)[:, -self.remembered:].detach())
            x = feed_forward(attend(x, memory, positions, 0.0, mask))
        return self.crit(x, targets).float().mean(), after


def network(words, layers, d_model, d_inner, heads, d_head, cutoffs, div_val, memory):
    """For a text of so many different words; embeddings are as wide as the layers, and nothing is dropped."""
    sizes = Sizes(d_model, d_inner, heads, d_head, words, tuple(cutoffs), div_val)
    return TransformerXl(sizes, layers, memory)
