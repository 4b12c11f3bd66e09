// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/plain_pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <unordered_map>

namespace kvloupe {

namespace {

// What calls into Python, by opcode.
struct Forbidden {
    unsigned char opcode;
    const char* name;
};
constexpr std::array<Forbidden, 17> forbidden = {{{'c', "GLOBAL"}, {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"}, {'b', "BUILD"}, {'i', "INST"},
                                                  {'o', "OBJ"}, {0x81, "NEWOBJ"}, {0x92, "NEWOBJ_EX"}, {'P', "PERSID"}, {'Q', "BINPERSID"},
                                                  {0x82, "EXT1"}, {0x83, "EXT2"}, {0x84, "EXT4"}, {0x97, "NEXT_BUFFER"},
                                                  {0x98, "READONLY_BUFFER"}, {0x8F, "EMPTY_SET"}, {0x91, "FROZENSET"}}};

}  // namespace

// Runs the pickle's opcodes over a stack of nodes.
class PickleMachine {
public:
    explicit PickleMachine(std::string_view bytes) : m_bytes(bytes) {}

    Result<PlainPickle> run() {
        while (m_at < m_bytes.size()) {
            m_opcode_at = m_at;
            const auto opcode = static_cast<unsigned char>(m_bytes[m_at++]);
            if (opcode == '.') {
                if (m_stack.size() != 1) return broken("it ends with " + std::to_string(m_stack.size()) + " values");
                m_pickle.m_root = m_stack.front();
                return std::move(m_pickle);
            }
            for (const Forbidden& one : forbidden)
                if (one.opcode == opcode)
                    return Error{std::string("The pickle is more than data: at byte ") + std::to_string(m_opcode_at) + " stands " + one.name +
                                     ", which would run code of Python's",
                                 "Only snapshots of plain dicts, lists, numbers and texts are read"};
            if (!execute(opcode)) return broken(m_why.empty() ? "at byte " + std::to_string(m_opcode_at) : m_why);
        }
        return broken("it is cut off");
    }

private:
    using Node = PlainPickle::Node;
    using Kind = PlainPickle::Kind;
    using Value = PlainPickle::Value;
    static constexpr Node mark = 0xFFFFFFFEu;

    Error broken(const std::string& why) const { return {"The file is no whole pickle: " + why, "Write the snapshot again"}; }

    bool no(std::string why) {
        m_why = std::move(why) + " at byte " + std::to_string(m_opcode_at);
        return false;
    }

    template <class T>
    bool take(T& value) {
        if (m_bytes.size() - m_at < sizeof(T)) return no("it is cut off");
        std::memcpy(&value, m_bytes.data() + m_at, sizeof(T));  // little-endian, as this machine
        m_at += sizeof(T);
        return true;
    }

    bool push(Value value) {
        m_stack.push_back(static_cast<Node>(m_pickle.m_values.size()));
        m_pickle.m_values.push_back(value);
        return m_pickle.m_values.size() < mark || no("there are too many values");
    }
    bool push_list(Kind kind, std::vector<Node> elements) {
        m_pickle.m_lists.push_back(std::move(elements));
        return push({kind, static_cast<std::int64_t>(m_pickle.m_lists.size()) - 1, 0});
    }
    template <class Length>
    bool push_text() {
        Length length = 0;
        if (!take(length)) return false;
        if (length > m_bytes.size() - m_at) return no("a text is cut off");
        m_pickle.m_texts.emplace_back(m_bytes.substr(m_at, static_cast<std::size_t>(length)));
        m_at += static_cast<std::size_t>(length);
        return push({Kind::text, static_cast<std::int64_t>(m_pickle.m_texts.size()) - 1, 0});
    }

    bool pop(Node& node) {
        if (m_stack.empty() || m_stack.back() == mark) return no("a value is missing");
        node = m_stack.back();
        m_stack.pop_back();
        return true;
    }
    bool pop_to_mark(std::vector<Node>& nodes) {
        std::size_t at = m_stack.size();
        while (at > 0 && m_stack[at - 1] != mark) --at;
        if (at == 0) return no("a mark is missing");
        nodes.assign(m_stack.begin() + static_cast<std::ptrdiff_t>(at), m_stack.end());
        m_stack.resize(at - 1);
        return true;
    }
    bool add_to(Kind kind, const std::vector<Node>& nodes) {
        if (m_stack.empty() || m_stack.back() == mark || m_pickle.m_values[m_stack.back()].kind != kind) return no("there is nothing to add to");
        if (kind == Kind::dictionary && nodes.size() % 2 != 0) return no("a key has no value");
        auto& list = m_pickle.m_lists[static_cast<std::size_t>(m_pickle.m_values[m_stack.back()].integer)];
        list.insert(list.end(), nodes.begin(), nodes.end());
        return true;
    }
    bool push_tuple(std::size_t count) {
        std::vector<Node> nodes(count);
        while (count > 0)
            if (!pop(nodes[--count])) return false;
        return push_list(Kind::list, std::move(nodes));
    }
    bool remember(std::uint64_t place) {
        if (m_stack.empty() || m_stack.back() == mark) return no("there is nothing to remember");
        m_memo[place] = m_stack.back();
        return true;
    }
    template <class Place>
    bool recall() {
        Place place = 0;
        if (!take(place)) return false;
        const auto found = m_memo.find(place);
        if (found == m_memo.end()) return no("what is named was never remembered");
        m_stack.push_back(found->second);
        return true;
    }
    template <class Place>
    bool remember_at() {
        Place place = 0;
        return take(place) && remember(place);
    }

    template <class T>
    bool push_integer() {
        T value = 0;
        return take(value) && push({Kind::integer, static_cast<std::int64_t>(value), 0});
    }
    // Two's complement of `length` bytes.
    bool push_long(std::size_t length) {
        if (length > m_bytes.size() - m_at) return no("a number is cut off");
        if (length > 8 && !(length == 9 && m_bytes[m_at + 8] == 0)) return no("a number has more than 64 bits");
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < std::min<std::size_t>(length, 8); ++i)
            value |= std::uint64_t{static_cast<unsigned char>(m_bytes[m_at + i])} << (8 * i);
        if (length > 0 && length < 8 && (static_cast<unsigned char>(m_bytes[m_at + length - 1]) & 0x80)) value |= ~std::uint64_t{0} << (8 * length);
        m_at += length;
        return push({Kind::integer, static_cast<std::int64_t>(value), 0});
    }
    bool push_real() {
        std::uint64_t bits = 0;
        if (!take(bits)) return false;
        std::uint64_t turned = 0;  // big-endian, unlike all else
        for (int i = 0; i < 8; ++i) turned = turned << 8 | ((bits >> (8 * i)) & 0xFF);
        return push({Kind::real, 0, std::bit_cast<double>(turned)});
    }

    bool execute(unsigned char opcode) {
        std::vector<Node> nodes;
        Node key = 0, value = 0;
        std::uint8_t small = 0;
        std::uint32_t length = 0;
        std::uint64_t frame = 0;
        switch (opcode) {
        case 0x80: return take(small) && (small <= 5 || no("its protocol is newer than 5"));  // PROTO
        case 0x95: return take(frame);                                                        // FRAME
        case 0x94: return remember(m_memo.size());                                            // MEMOIZE
        case 'q': return remember_at<std::uint8_t>();                                         // BINPUT
        case 'r': return remember_at<std::uint32_t>();                                        // LONG_BINPUT
        case 'h': return recall<std::uint8_t>();                                              // BINGET
        case 'j': return recall<std::uint32_t>();                                             // LONG_BINGET
        case '(': m_stack.push_back(mark); return true;                                       // MARK
        case '0': return pop(value);                                                          // POP
        case '1': return pop_to_mark(nodes);                                                  // POP_MARK
        case '2':                                                                             // DUP
            if (m_stack.empty() || m_stack.back() == mark) return no("a value is missing");
            m_stack.push_back(m_stack.back());
            return true;
        case 'N': return push({});                                                            // NONE
        case 0x88: return push({Kind::boolean, 1, 0});                                        // NEWTRUE
        case 0x89: return push({Kind::boolean, 0, 0});                                        // NEWFALSE
        case 'J': return push_integer<std::int32_t>();                                        // BININT
        case 'K': return push_integer<std::uint8_t>();                                        // BININT1
        case 'M': return push_integer<std::uint16_t>();                                       // BININT2
        case 0x8A: return take(small) && push_long(small);                                    // LONG1
        case 0x8B: return take(length) && push_long(length);                                  // LONG4
        case 'G': return push_real();                                                         // BINFLOAT
        case 0x8C: return push_text<std::uint8_t>();                                          // SHORT_BINUNICODE
        case 'X': return push_text<std::uint32_t>();                                          // BINUNICODE
        case 0x8D: return push_text<std::uint64_t>();                                         // BINUNICODE8
        case 'C':                                                                             // SHORT_BINBYTES
        case 'U': return push_text<std::uint8_t>();                                           // SHORT_BINSTRING
        case 'B':                                                                             // BINBYTES
        case 'T': return push_text<std::uint32_t>();                                          // BINSTRING
        case ']': return push_list(Kind::list, {});                                           // EMPTY_LIST
        case ')': return push_list(Kind::list, {});                                           // EMPTY_TUPLE
        case '}': return push_list(Kind::dictionary, {});                                     // EMPTY_DICT
        case 'l':                                                                             // LIST
        case 't': return pop_to_mark(nodes) && push_list(Kind::list, std::move(nodes));       // TUPLE
        case 'd':                                                                             // DICT
            return pop_to_mark(nodes) && (nodes.size() % 2 == 0 || no("a key has no value")) && push_list(Kind::dictionary, std::move(nodes));
        case 0x85: return push_tuple(1);                                                      // TUPLE1
        case 0x86: return push_tuple(2);                                                      // TUPLE2
        case 0x87: return push_tuple(3);                                                      // TUPLE3
        case 'a': return pop(value) && add_to(Kind::list, {value});                           // APPEND
        case 'e': return pop_to_mark(nodes) && add_to(Kind::list, nodes);                     // APPENDS
        case 's': return pop(value) && pop(key) && add_to(Kind::dictionary, {key, value});    // SETITEM
        case 'u': return pop_to_mark(nodes) && add_to(Kind::dictionary, nodes);               // SETITEMS
        default: {
            char text[64];
            std::snprintf(text, sizeof text, "its opcode 0x%02X is not known", opcode);
            return no(text);
        }
        }
    }

    std::string_view m_bytes;
    std::size_t m_at = 0, m_opcode_at = 0;
    std::vector<Node> m_stack;
    std::unordered_map<std::uint64_t, Node> m_memo;
    PlainPickle m_pickle;
    std::string m_why;
};

Result<PlainPickle> PlainPickle::read(std::string_view bytes) { return PickleMachine(bytes).run(); }

std::int64_t PlainPickle::integer(Node node, std::int64_t otherwise) const {
    if (node >= m_values.size()) return otherwise;
    const Value& value = m_values[node];
    return value.kind == Kind::integer || value.kind == Kind::boolean ? value.integer : otherwise;
}

double PlainPickle::real(Node node, double otherwise) const {
    if (node >= m_values.size()) return otherwise;
    const Value& value = m_values[node];
    if (value.kind == Kind::real) return value.real;
    return value.kind == Kind::integer ? static_cast<double>(value.integer) : otherwise;
}

std::string_view PlainPickle::text(Node node) const {
    return node < m_values.size() && m_values[node].kind == Kind::text ? std::string_view(m_texts[static_cast<std::size_t>(m_values[node].integer)])
                                                                       : std::string_view();
}

std::size_t PlainPickle::size(Node node) const {
    if (node >= m_values.size()) return 0;
    const Value& value = m_values[node];
    if (value.kind == Kind::list) return m_lists[static_cast<std::size_t>(value.integer)].size();
    return value.kind == Kind::dictionary ? m_lists[static_cast<std::size_t>(value.integer)].size() / 2 : 0;
}

PlainPickle::Node PlainPickle::element(Node node, std::size_t index) const {
    if (node >= m_values.size() || m_values[node].kind != Kind::list || index >= size(node)) return absent;
    return m_lists[static_cast<std::size_t>(m_values[node].integer)][index];
}

std::pair<PlainPickle::Node, PlainPickle::Node> PlainPickle::entry(Node node, std::size_t index) const {
    if (node >= m_values.size() || m_values[node].kind != Kind::dictionary || index >= size(node)) return {absent, absent};
    const auto& list = m_lists[static_cast<std::size_t>(m_values[node].integer)];
    return {list[2 * index], list[2 * index + 1]};
}

// The last one where a key stands twice, as Python has it.
PlainPickle::Node PlainPickle::find(Node node, std::string_view key) const {
    for (std::size_t i = size(node); i > 0; --i) {
        const auto [name, value] = entry(node, i - 1);
        if (name != absent && m_values[name].kind == Kind::text && text(name) == key) return value;
    }
    return absent;
}

}  // namespace kvloupe
