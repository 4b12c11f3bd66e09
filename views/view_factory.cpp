// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/view_factory.h"

#include "views/pool_view.h"
#include "views/tokens_view.h"

#include <QCoreApplication>

namespace kvloupe {

namespace {

struct Entry {
    const char* id;
    const char* title;
    const char* tab;
    std::unique_ptr<View> (*create)(Cursor*, QWidget*);
};

template <class T>
std::unique_ptr<View> make(Cursor* cursor, QWidget* parent) {
    return std::make_unique<T>(cursor, parent);
}

constexpr Entry entries[] = {
    {"tokens", QT_TRANSLATE_NOOP("kvloupe::views", "Tokens and block table"), "Step", make<TokensView>},
    {"pool", QT_TRANSLATE_NOOP("kvloupe::views", "Block pool"), "Step", make<PoolView>},
};

}  // namespace

std::vector<ViewDescription> viewDescriptions() {
    std::vector<ViewDescription> descriptions;
    for (const Entry& entry : entries)
        descriptions.push_back({QString::fromLatin1(entry.id), QCoreApplication::translate("kvloupe::views", entry.title),
                                QString::fromLatin1(entry.tab)});
    return descriptions;
}

std::unique_ptr<View> createView(const QString& id, Cursor* cursor, QWidget* parent) {
    for (const Entry& entry : entries)
        if (id == QLatin1String(entry.id)) return entry.create(cursor, parent);
    return nullptr;
}

}  // namespace kvloupe
