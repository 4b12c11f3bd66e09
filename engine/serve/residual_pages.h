// SPDX-License-Identifier: GPL-3.0-or-later
//
// ResidualPages: which f16 page stands for which block, where a cache keeps the newest tokens unquantised (KIVI). A block takes a
// page when it is first written and gives it back when it is quantised ("sealed") or nobody owns it any more.
#pragma once

#include "engine/record/ids.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

class ResidualPages {
public:
    ResidualPages() = default;
    ResidualPages(std::uint32_t blocks, std::uint32_t pages);

    bool empty() const { return m_pages == 0; }  // no layer keeps a residual
    std::uint32_t used() const { return m_pages - static_cast<std::uint32_t>(m_free.size()); }

    // page + 1 of a block that is kept in f16, else 0.
    std::uint32_t page_of(BlockId block) const { return empty() ? 0 : m_page_of[block.value]; }
    bool sealed(BlockId block) const { return !empty() && m_sealed[block.value]; }

    // Pages that stand for a block.
    std::vector<std::uint32_t> taken() const;

    // False where no page is free. The block has none and is not sealed.
    bool take(BlockId block);
    // Its page, if it has one, is free again.
    void give_back(BlockId block);
    void set_sealed(BlockId block, bool sealed) { m_sealed[block.value] = sealed; }

private:
    std::uint32_t m_pages = 0;
    std::vector<std::uint32_t> m_page_of;  // (blocks)
    std::vector<bool> m_sealed;            // (blocks)
    std::vector<std::uint32_t> m_free;     // the next one at the end
};

}  // namespace kvloupe
