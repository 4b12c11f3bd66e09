// SPDX-License-Identifier: GPL-3.0-or-later
//
// All pictures by id: what menu, export names and commands rely on (contract, section 5; titles of design/NOTES.md).
#pragma once

#include <QString>
#include <QStringList>

#include <memory>
#include <vector>

class QWidget;

namespace kvloupe {

class Cursor;
class View;

struct ViewDescription {
    QString id;
    QString title;  // translated
    QString tab;    // "Step", "Compare", "Memory", "Profile", "More", not translated; the window translates tab names
};

// In the order of the contract.
std::vector<ViewDescription> viewDescriptions();

// Null for an unknown id. With a parent: release() it, the parent owns it.
std::unique_ptr<View> createView(const QString& id, Cursor* cursor, QWidget* parent = nullptr);

}  // namespace kvloupe
