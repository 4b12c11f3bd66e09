# SPDX-License-Identifier: GPL-3.0-or-later
"""A small Llama-style decoder: RMSNorm, rotary positions (rotate-half), SwiGLU, grouped key/value heads, tied embeddings."""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    kv_heads: int
    vocabulary: int = 768
    width: int = 128
    layers: int = 4
    heads: int = 8
    head_dim: int = 16
    feed_forward: int = 256
    rope_theta: float = 100000.0
    epsilon: float = 1e-5
    context: int = 512


# The sisters: what differs between the variants, by the name of their folder.
VARIANTS = {
    "mha": Shape(kv_heads=8),
    "gqa": Shape(kv_heads=2),
    "mqa": Shape(kv_heads=1),
}


class Norm(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.width))
        self.epsilon = shape.epsilon

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        s = self.shape = shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        deep = .06 / (2 * s.layers) ** .5
        self.norm1, self.norm2 = Norm(s), Norm(s)
        self.qk = nn.Parameter(torch.randn(q + kv, s.width) * .09)               # (query rows, key rows; width)
        self.v = nn.Parameter(torch.randn(kv, s.width) * .05)                    # (kv, width)
        self.o = nn.Parameter(torch.randn(s.width, q) * deep)                    # (width, q)
        self.gate_up = nn.Parameter(torch.randn(2 * s.feed_forward, s.width) * .05)
        self.down = nn.Parameter(torch.randn(s.width, s.feed_forward) * deep)

    def forward(self, x, cos, sin):
        s = self.shape
        batch, tokens, _ = x.shape
        h = self.norm1(x)
        qkv = F.linear(h, torch.cat((self.qk, self.v)))
        qkv = qkv.view(batch, tokens, s.heads + 2 * s.kv_heads, s.head_dim).transpose(1, 2)
        qk, v = qkv[:, :s.heads + s.kv_heads].float(), qkv[:, s.heads + s.kv_heads:]
        low, high = qk.chunk(2, -1)
        qk = (qk * cos + torch.cat((-high, low), -1) * sin).to(v.dtype)
        q, k = qk[:, :s.heads], qk[:, s.heads:]                                  # (batch, heads, tokens, head_dim)
        if s.kv_heads < s.heads:
            k = k.repeat_interleave(s.heads // s.kv_heads, 1)
            v = v.repeat_interleave(s.heads // s.kv_heads, 1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(a.transpose(1, 2).reshape(batch, tokens, -1), self.o)
        gate, up = F.linear(self.norm2(x), self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * .05)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape)
        cos, sin = rotary(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, ids):
        """Logits (batch, tokens, vocabulary) of ids (batch, tokens)."""
        x = F.embedding(ids, self.embed)
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.linear(self.norm(x), self.embed)


def rotary(shape):
    """cos and sin, each (context, head_dim), for rotate-half."""
    rates = shape.rope_theta ** (-torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim)
    angles = torch.outer(torch.arange(shape.context, dtype=torch.float32), rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def loss(model, ids, targets, weights):
    """Weighted mean cross-entropy, and the plain mean beside it."""
    logits = model(ids).float()
    each = F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1), reduction="none")
    w = weights.reshape(-1)
    return (each * w).sum() / w.sum(), each.detach().mean()


def parameters(shape):
    return sum(p.numel() for p in Model(shape).parameters())


def describe(shape):
    return asdict(shape)
