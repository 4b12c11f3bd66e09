# SPDX-License-Identifier: GPL-3.0-or-later
"""Multi-head latent attention: keys and values of all heads come from one small vector per token, the latent.

After DeepSeek-V2 (arXiv:2405.04434, section 2.1), without the low-rank query: a token leaves in the cache its normalised
latent (`latent` numbers) and one rotary key that all heads share (`rotary` numbers). Each head makes the rest of its key
and its value from the latent. This is the expanded form, which is what training wants; the score of a head is
(q_plain . k_plain + q_rotary . k_rotary) / sqrt(head_dim + rotary).
"""

import torch
import torch.nn.functional as F
from torch import nn

from parts import Norm, feed, turned

SHARPNESS = 2.0  # how strongly the matching heads of layer 1 start


class LatentBlock(nn.Module):
    """A decoder block with latent attention. Row order of `q`, head by head: head_dim plain rows, then `rotary` rows."""

    def __init__(self, shape):
        super().__init__()
        s = self.shape = shape
        deep = .06 / (2 * s.layers) ** .5
        self.norm1, self.norm2 = Norm(s.width, s.epsilon), Norm(s.width, s.epsilon)
        self.q = nn.Parameter(torch.randn(s.heads * (s.head_dim + s.rotary), s.width) * .05)
        self.kv_a = nn.Parameter(torch.randn(s.latent + s.rotary, s.width) * .05)      # (latent rows, rotary key rows; width)
        self.kv_norm = Norm(s.latent, s.epsilon)
        self.kv_b = nn.Parameter(torch.randn(s.heads * 2 * s.head_dim, s.latent) * .08)  # head by head: key rows, value rows
        self.o = nn.Parameter(torch.randn(s.width, s.heads * s.head_dim) * deep)       # (width, values of all heads)
        self.gate_up = nn.Parameter(torch.randn(2 * s.feed_forward, s.width) * .05)
        self.down = nn.Parameter(torch.randn(s.width, s.feed_forward) * deep)

    def queries_keys_values(self, h, cos, sin):
        """q and k (batch, heads, tokens, head_dim + rotary), v (batch, heads, tokens, head_dim) of h (batch, tokens, width)."""
        s = self.shape
        batch, tokens, _ = h.shape
        q_plain, q_rotary = (F.linear(h, self.q).view(batch, tokens, s.heads, s.head_dim + s.rotary).transpose(1, 2)
                             .split((s.head_dim, s.rotary), -1))
        latent, k_rotary = F.linear(h, self.kv_a).split((s.latent, s.rotary), -1)
        k_plain, v = (F.linear(self.kv_norm(latent), self.kv_b).view(batch, tokens, s.heads, 2 * s.head_dim).transpose(1, 2)
                      .chunk(2, -1))
        k_rotary = turned(k_rotary.unsqueeze(1), cos, sin).expand(-1, s.heads, -1, -1)
        return torch.cat((q_plain, turned(q_rotary, cos, sin)), -1), torch.cat((k_plain, k_rotary), -1), v

    def forward(self, x, cos, sin):
        batch, tokens, _ = x.shape
        q, k, v = self.queries_keys_values(self.norm1(x), cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # scales by 1/sqrt(head_dim + rotary)
        x = x + F.linear(a.transpose(1, 2).reshape(batch, tokens, -1), self.o)
        return x + feed(self, x)


@torch.no_grad()
def seed_latent_induction(model):
    """What seed_induction() of model.py does, for latent attention: one circuit, since all heads share one latent.

    Layer 0: head 0 looks one token back with the shared rotary key, and half of the latent is a code of the token.
    Layer 1: one half of the latent is the code that layer 0 wrote, which heads 0 and 1 match with their plain part; the
    other half is what they copy. Both use plain parts without any rotation, so that distance does not matter.
    """
    s = model.shape
    half = s.latent // 2
    first, second = model.blocks[0], model.blocks[1]
    common = torch.sign(torch.randn(s.width)) * .05
    model.embed += common
    unit = common / common.norm()
    read = unit / (s.width / 2) ** .5       # half of a normalised embedding's energy is common

    def code():
        """half unit rows that do not see the common direction"""
        rows = torch.randn(half, s.width)
        rows -= torch.outer(rows @ unit, unit)
        return rows / rows.norm(dim=1, keepdim=True)

    token, written, copied = code(), code(), code()
    one = torch.eye(s.head_dim, half)
    pairs, query, key = s.rotary // 2, s.head_dim, s.latent  # first rotary rows of head 0 in q and of the key in kv_a
    first.q[:s.head_dim] *= .3
    for pair, weight in ((0, 6.0), (1, 3.6)):   # scores are divided by sqrt(32), not sqrt(16)
        turn = torch.tensor(s.rope_theta ** (-2 * pair / s.rotary))
        first.kv_a[key + pair], first.kv_a[key + pair + pairs] = weight * read, 0
        first.q[query + pair], first.q[query + pair + pairs] = weight * turn.cos() * read, -weight * turn.sin() * read
    first.kv_a[:half] = token
    first.kv_b[s.head_dim:2 * s.head_dim] = torch.cat((one, 0 * one), 1)
    first.o[:, :s.head_dim] = .3 * written.T
    second.kv_a[:half], second.kv_a[half:s.latent] = written, copied
    for head in range(2):
        q, kv = head * (s.head_dim + s.rotary), head * 2 * s.head_dim
        second.q[q:q + s.head_dim] = SHARPNESS * token
        second.q[q + s.head_dim:q + s.head_dim + s.rotary] *= .3
        second.kv_b[kv:kv + s.head_dim] = SHARPNESS * torch.cat((one, 0 * one), 1)
        second.kv_b[kv + s.head_dim:kv + 2 * s.head_dim] = torch.cat((0 * one, one), 1)
        second.o[:, head * s.head_dim:(head + 1) * s.head_dim] = .3 * copied.T
