# SPDX-License-Identifier: GPL-3.0-or-later
"""What the blocks of all variants share: the norm, the rotation and the feed-forward part."""

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    """RMSNorm over the last dimension, computed in f32."""

    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


def rotary(dimension, theta, context):
    """cos and sin, each (context, dimension), for rotate-half."""
    rates = theta ** (-torch.arange(0, dimension, 2, dtype=torch.float32) / dimension)
    angles = torch.outer(torch.arange(context, dtype=torch.float32), rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def turned(x, cos, sin):
    """x (..., tokens, dimension) turned by its position, rotate-half: pair i is (i, i + dimension / 2)."""
    low, high = x.float().chunk(2, -1)
    return (x * cos + torch.cat((-high, low), -1) * sin).to(x.dtype)


def feed(block, x):
    """The SwiGLU part of a block, before it is added to the residual stream."""
    gate, up = F.linear(block.norm2(x), block.gate_up).chunk(2, -1)
    return F.linear(F.silu(gate) * up, block.down)
