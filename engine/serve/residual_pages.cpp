// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/residual_pages.h"

namespace kvloupe {

ResidualPages::ResidualPages(std::uint32_t blocks, std::uint32_t pages) : m_pages(pages) {
    if (pages == 0) return;
    m_page_of.assign(blocks, 0);
    m_sealed.assign(blocks, false);
    for (std::uint32_t page = pages; page-- > 0;) m_free.push_back(page);
}

std::vector<std::uint32_t> ResidualPages::taken() const {
    std::vector<std::uint32_t> taken;
    for (const std::uint32_t page : m_page_of)
        if (page > 0) taken.push_back(page - 1);
    return taken;
}

bool ResidualPages::take(BlockId block) {
    if (m_free.empty()) return false;
    m_page_of[block.value] = m_free.back() + 1;
    m_free.pop_back();
    return true;
}

void ResidualPages::give_back(BlockId block) {
    std::uint32_t& page = m_page_of[block.value];
    if (page == 0) return;
    m_free.push_back(page - 1);
    page = 0;
}

}  // namespace kvloupe
