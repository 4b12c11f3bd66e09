// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockValuesSource: where views get what a block holds. Values are not part of a recording: a running engine is asked, and
// answers between two steps. The window gives one source to every BlockView.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/block_values.h"

#include <memory>

namespace kvloupe {

class BlockValuesSource : public QObject {
    Q_OBJECT

public:
    using QObject::QObject;

    // Asks, unless what is known is what the engine would say now. Cheap: views call it whenever they are refreshed.
    virtual void ask(const BlockQuestion& question) = 0;
    // The newest answer, to whatever was asked last; null: none yet.
    virtual std::shared_ptr<const BlockValues> answer() const = 0;

Q_SIGNALS:
    void answered();
};

}  // namespace kvloupe
