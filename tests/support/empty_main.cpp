// SPDX-License-Identifier: GPL-3.0-or-later
//
// A program that does nothing: it is there for the headers precompiled for it.
int main() {}
