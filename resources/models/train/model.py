# SPDX-License-Identifier: GPL-3.0-or-later
"""A small Llama-style decoder: RMSNorm, rotary positions (rotate-half), SwiGLU, tied embeddings; keys and values in groups
of heads, of all tokens or of a window, or from a latent (latent.py)."""

from dataclasses import asdict, dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

from latent import LatentBlock, seed_latent_induction
from parts import Norm, feed, rotary, turned


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
    window: int = 0    # tokens that a token sees, itself included; 0: all before it
    latent: int = 0    # numbers a token's latent has; 0: keys and values are stored as they are
    rotary: int = 0    # ... and its rotary key, which all heads share


# The sisters: what differs between the variants, by the name of their folder.
VARIANTS = {
    "mha": Shape(kv_heads=8),
    "gqa": Shape(kv_heads=2),
    "mqa": Shape(kv_heads=1),
    "mla": Shape(kv_heads=8, latent=32, rotary=16, rope_theta=10000.0, epsilon=1e-6),
    "swa": Shape(kv_heads=2, window=64),
    "gqa-uptrained": Shape(kv_heads=2),
}


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        s = self.shape = shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        deep = .06 / (2 * s.layers) ** .5
        self.norm1, self.norm2 = Norm(s.width, s.epsilon), Norm(s.width, s.epsilon)
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
        qk, v = turned(qkv[:, :s.heads + s.kv_heads], cos, sin), qkv[:, s.heads + s.kv_heads:]
        q, k = qk[:, :s.heads], qk[:, s.heads:]                                  # (batch, heads, tokens, head_dim)
        if s.kv_heads < s.heads:
            k = k.repeat_interleave(s.heads // s.kv_heads, 1)
            v = v.repeat_interleave(s.heads // s.kv_heads, 1)
        if s.window and tokens > s.window:
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=seen(tokens, s.window, x.device))
        else:
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(a.transpose(1, 2).reshape(batch, tokens, -1), self.o)
        return x + feed(self, x)


def seen(tokens, window, device):
    """(tokens, tokens): whether the row's token sees the column's, which is one of the last `window` including itself."""
    back = torch.arange(tokens, device=device)
    back = back[:, None] - back[None, :]
    return (back >= 0) & (back < window)


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * .05)
        self.blocks = nn.ModuleList((LatentBlock if shape.latent else Block)(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, shape.epsilon)
        (seed_latent_induction if shape.latent else seed_induction)(self)
        cos, sin = rotary(shape.rotary or shape.head_dim, shape.rope_theta, shape.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, ids):
        """Logits (batch, tokens, vocabulary) of ids (batch, tokens)."""
        x = F.embedding(ids, self.embed)
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.linear(self.norm(x), self.embed)


@torch.no_grad()
def seed_induction(model):
    """Starts a few heads as a rough induction circuit; everything about it may change in training.

    Why: whether and when induction forms is otherwise a matter of the seed and takes most of a small budget. For every
    circuit, a head of the first layer looks one token back and writes a random 16-dimensional code of that token into the
    residual stream; a head of the second layer matches the code of its own token against it and copies what stands there.

    Every embedding gets one common direction, which the look-back heads read in the two fastest rotary pairs, with the
    query turned back by one position. An equal shift of all embeddings moves all logits alike. The matching heads use
    the slow rotary pairs only, which hardly turn within the context.
    """
    s = model.shape
    group, half = s.heads // s.kv_heads, s.head_dim // 2
    first, second = model.blocks[0], model.blocks[1]
    queries, values = s.heads * s.head_dim, s.head_dim
    common = torch.sign(torch.randn(s.width)) * .05
    model.embed += common
    unit = common / common.norm()
    read = unit / (s.width / 2) ** .5       # half of a normalised embedding's energy is common

    def code():
        """head_dim random unit rows that do not see the common direction"""
        rows = torch.randn(s.head_dim, s.width)
        rows -= torch.outer(rows @ unit, unit)
        return rows / rows.norm(dim=1, keepdim=True)

    slow = [p + side for p in range(3, half) for side in (0, half)]
    for circuit in range(min(4, s.kv_heads)):
        token, written, copied = code(), code(), code()
        q, kv = circuit * group * s.head_dim, circuit * s.head_dim
        k = queries + kv
        for pair, weight in ((0, 5.0), (1, 3.0)):
            turn = torch.tensor(s.rope_theta ** (-2 * pair / s.head_dim))
            first.qk[k + pair], first.qk[k + pair + half] = weight * read, 0
            first.qk[q + pair], first.qk[q + pair + half] = weight * turn.cos() * read, -weight * turn.sin() * read
        first.v[kv:kv + values] = token
        first.o[:, q:q + s.head_dim] = .3 * written.T
        second.v[kv:kv + values] = copied
        second.qk[k:k + s.head_dim] *= .3
        for d in slow:
            second.qk[k + d] = 2.1 * written[d]
        for head in range(min(2, group)):
            rows = q + head * s.head_dim
            second.qk[rows:rows + s.head_dim] *= .3
            for d in slow:
                second.qk[rows + d] = 2.1 * token[d]
            second.o[:, rows:rows + s.head_dim] = .3 * copied.T


class Twin:
    """A model with as many key/value heads as query heads that computes what `model` computes, sharing its other weights.

    It exists so that one compiled graph serves every variant: compiling takes longer than some stages. Call spread()
    before the forward pass and gather() after the backward pass.
    """

    def __init__(self, model):
        self.model, self.group = model, model.shape.heads // model.shape.kv_heads
        self.full = model if self.group == 1 else Model(replace(model.shape, kv_heads=model.shape.heads))
        if self.group > 1:
            self.full.embed, self.full.norm = model.embed, model.norm
            for mine, theirs in zip(model.blocks, self.full.blocks):
                for name in ("norm1", "norm2", "o", "gate_up", "down"):
                    setattr(theirs, name, getattr(mine, name))

    def pairs(self):
        if self.group > 1:
            yield from zip(self.model.blocks, self.full.blocks)

    @torch.no_grad()
    def spread(self):
        s = self.model.shape
        q = s.heads * s.head_dim
        for mine, theirs in self.pairs():
            theirs.qk[:q] = mine.qk[:q]
            theirs.qk[q:].view(s.kv_heads, self.group, -1).copy_(mine.qk[q:].view(s.kv_heads, 1, -1))
            theirs.v.view(s.kv_heads, self.group, -1).copy_(mine.v.view(s.kv_heads, 1, -1))

    @torch.no_grad()
    def gather(self):
        s = self.model.shape
        q = s.heads * s.head_dim

        def fold(gradient):
            return gradient.view(s.kv_heads, self.group, -1).sum(1).view(s.kv_heads * s.head_dim, -1)

        for mine, theirs in self.pairs():
            mine.qk.grad = torch.cat((theirs.qk.grad[:q], fold(theirs.qk.grad[q:])))
            mine.v.grad = fold(theirs.v.grad)
            theirs.qk.grad = theirs.v.grad = None


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
