"""Transformer-XL in plain torch, with the layers of the DEQ-Transformer beside it: what a DEQ is compared with."""

import torch
from torch import nn

from peers.torchdeq_transformer import (AdaptiveEmbedding, AdaptiveSoftmax, Attention, FeedForward, Positions,
                                        Sizes, causal_mask)

PUBLISHED = Sizes(410, 2100, 10, 41)
LAYERS = 18


class TransformerXl(nn.Module):
    def __init__(self, sizes=PUBLISHED, layers=LAYERS):
        super().__init__()
        self.word_emb = AdaptiveEmbedding(sizes)
        self.pos_emb = Positions(sizes.d_model)
        self.layers = nn.ModuleList(nn.ModuleList([Attention(sizes), FeedForward(sizes)]) for _ in range(layers))
        self.crit = AdaptiveSoftmax(sizes, self.word_emb)

    def forward(self, tokens, targets, past):
        """The cost of every target; `past` has each layer's memory."""
        keys = past[0].shape[1] + tokens.shape[1]
        positions, mask = self.pos_emb(keys), causal_mask(tokens.shape[1], keys, tokens.device)
        x = self.word_emb(tokens)
        for (attend, feed_forward), memory in zip(self.layers, past):
            x = feed_forward(attend(x, memory, positions, 0.0, mask))
        return self.crit(x, targets)
