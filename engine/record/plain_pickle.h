// SPDX-License-Identifier: GPL-3.0-or-later
//
// Reader of Python pickles that hold plain data: dicts, lists, tuples, numbers, texts, None, True and False. Whatever would call
// or look up something of Python's (GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, persistent ids, extension codes) is
// refused by name: a pickle is a program, and only its data is wanted. Protocols 0 to 5 in their binary opcodes (Python's
// pickletools describes them).
#pragma once

#include "engine/record/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvloupe {

class PlainPickle {
public:
    enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, dictionary };
    using Node = std::uint32_t;  // objects that a pickle names twice are one node
    static constexpr Node absent = 0xFFFFFFFFu;

    // Errors: an opcode that is not plain (with its place), a pickle that is cut off or contradicts itself.
    static Result<PlainPickle> read(std::string_view bytes);

    Node root() const { return m_root; }
    Kind kind(Node node) const { return m_values[node].kind; }
    std::int64_t integer(Node node, std::int64_t otherwise = 0) const;  // of a boolean 0 or 1; of anything else `otherwise`
    double real(Node node, double otherwise = 0) const;                 // of an integer too
    std::string_view text(Node node) const;                             // "" of anything but a text
    std::size_t size(Node node) const;                                  // of a list, tuple or dictionary; else 0
    Node element(Node node, std::size_t index) const;                   // of a list or tuple; absent where there is none
    Node find(Node node, std::string_view key) const;                   // of a dictionary; absent where there is none
    std::pair<Node, Node> entry(Node node, std::size_t index) const;    // key, value

private:
    friend class PickleMachine;
    struct Value {
        Kind kind = Kind::none;
        std::int64_t integer = 0;   // or the index of what it holds
        double real = 0;
    };

    std::vector<Value> m_values;
    std::vector<std::string> m_texts;
    std::vector<std::vector<Node>> m_lists;  // of a dictionary key, value, key, value, …
    Node m_root = absent;
};

}  // namespace kvloupe
